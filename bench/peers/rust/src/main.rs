//! HTTP servers on one thread: `peers NAME HOST PORT`. Each prints its address when it is
//! ready, and answers every request with "Hello, World!".

mod axum_server;
mod hyper_server;
mod may_server;

use std::future::Future;
use std::net::SocketAddr;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let addr: SocketAddr = format!("{}:{}", args[2], args[3]).parse().expect("HOST PORT");
    match args[1].as_str() {
        "hyper" => on_one_thread(hyper_server::http1(addr)),
        "hyper-http2" => on_one_thread(hyper_server::http2(addr)),
        "axum" => on_one_thread(axum_server::serve(addr)),
        "may_minihttp" => may_server::serve(addr),
        name => panic!("no server {name}"),
    }
}

fn on_one_thread(server: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_io().build().expect("runtime");
    LocalSet::new().block_on(&runtime, server);
}

pub fn ready(addr: SocketAddr) {
    println!("listening on {addr}");
}
