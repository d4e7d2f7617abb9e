//! may_minihttp, with one worker thread.

use may_minihttp::{HttpServer, HttpService, Request, Response};
use std::io;
use std::net::{SocketAddr, TcpListener};

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _: Request, response: &mut Response) -> io::Result<()> {
        response.header("Content-Type: text/plain");
        response.body("Hello, World!");
        Ok(())
    }
}

pub fn serve(addr: SocketAddr) {
    may::config().set_workers(1);
    // It does not say which port it got, so find a free one first.
    let free = TcpListener::bind(addr).and_then(|l| l.local_addr()).expect("address");
    let server = HttpServer(Hello).start(free).expect("start");
    crate::ready(free);
    server.wait();
}
