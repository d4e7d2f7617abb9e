//! hyper, with the connections of one thread as local tasks.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

pub async fn http1(addr: SocketAddr) {
    accept(addr, |stream| {
        let serving = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(hello));
        spawn_local(serving);
    })
    .await
}

pub async fn http2(addr: SocketAddr) {
    accept(addr, |stream| {
        let serving = http2::Builder::new(Local).serve_connection(TokioIo::new(stream), service_fn(hello));
        spawn_local(serving);
    })
    .await
}

async fn accept(addr: SocketAddr, serve: impl Fn(TcpStream)) {
    let listener = TcpListener::bind(addr).await.expect("bind");
    crate::ready(listener.local_addr().expect("address"));
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        let _ = stream.set_nodelay(true);
        serve(stream);
    }
}

/// Local starts the streams of a connection on its own thread.
#[derive(Clone)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, stream: F) {
        spawn_local(async move {
            stream.await;
        });
    }
}
