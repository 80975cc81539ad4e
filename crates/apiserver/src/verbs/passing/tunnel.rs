//! A connection that has become something else than HTTP, such as a WebSocket.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::shutdown::Shutdown;
use crate::transport::long_running::Lasting;

/// Passes bytes both ways until either side ends, the server does, or the request may not last any more.
pub(super) async fn run(
    client_side: OnUpgrade,
    pod_side: OnUpgrade,
    mut shutdown: Shutdown,
    mut lasting: Lasting,
) {
    let passing = async {
        let (client, pod) = tokio::try_join!(client_side, pod_side)?;
        let (mut client, mut pod) = (TokioIo::new(client), TokioIo::new(pod));
        copy_bidirectional(&mut client, &mut pod).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    let ended = tokio::select! {
        ended = passing => ended,
        () = shutdown.requested() => return,
        () = lasting.ended() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a tunnel to a Pod ended with an error");
    }
}
