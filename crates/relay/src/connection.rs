//! The loop of one connection, whatever is spoken on it: one request after the other, until an end or an error.

use net::h1::{Error, ServerConnection, Stream};

/// Has each request of a connection answered. An error of `answer` ends the connection; with one, an answer is owed if
/// it has a status.
pub(crate) async fn serve(
    mut server: ServerConnection<Stream>,
    mut answer: impl AsyncFnMut(&mut ServerConnection<Stream>) -> Result<(), Option<Error>>,
) {
    loop {
        let done = match server.head().await {
            Ok(Some(_)) => answer(&mut server).await,
            Ok(None) => return,
            Err(error) => Err(Some(error)),
        };
        let Err(error) = done else { continue };
        if let Some(status) = error.and_then(Error::status) {
            // Whoever broke the connection need not read why.
            let _ = server.refuse(status, [], b"").await;
        }
        return;
    }
}
