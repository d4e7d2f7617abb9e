//! axum, with a route for the one path.

use axum::routing::get;
use axum::serve::ListenerExt;
use axum::Router;
use hyper::header::CONTENT_TYPE;
use std::net::SocketAddr;
use tokio::net::TcpListener;

async fn hello() -> impl axum::response::IntoResponse {
    ([(CONTENT_TYPE, "text/plain")], "Hello, World!")
}

pub async fn serve(addr: SocketAddr) {
    let listener = TcpListener::bind(addr).await.expect("bind");
    crate::ready(listener.local_addr().expect("address"));
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let app = Router::new().route("/plaintext", get(hello));
    axum::serve(listener, app).await.expect("serve");
}
