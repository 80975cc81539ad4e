//! A connection that was upgraded from HTTP to another protocol, such as WebSocket.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::shutdown::Shutdown;
use crate::transport::long_running::RequestLifetime;

/// Copies bytes in both directions until a side closes, the request's limit is reached, or the server shuts down.
pub(super) async fn run(
    client_upgrade: OnUpgrade,
    pod_upgrade: OnUpgrade,
    mut shutdown: Shutdown,
    mut lifetime: RequestLifetime,
) {
    let relay = async {
        let (client, pod) = tokio::try_join!(client_upgrade, pod_upgrade)?;
        let (mut client, mut pod) = (TokioIo::new(client), TokioIo::new(pod));
        copy_bidirectional(&mut client, &mut pod).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    let result = tokio::select! {
        result = relay => result,
        () = shutdown.requested() => return,
        () = lifetime.ended() => return,
    };
    if let Err(error) = result {
        tracing::debug!(%error, "tunnel to a Pod failed");
    }
}
