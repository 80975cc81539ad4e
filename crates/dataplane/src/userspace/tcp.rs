//! TCP: a connection is taken, an endpoint that answers is looked for, and both are joined.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use super::balance::Counted;
use super::relay::{relay, reset_at_close};
use super::{Place, chance};

/// How long each endpoint in turn has time to answer. As many are tried.
const CONNECT_TIMEOUTS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Pause after a connection could not be taken, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Where connections are taken, and where they go on.
#[derive(Clone, Debug)]
pub struct Door {
    /// The listener's address.
    pub address: SocketAddr,
    /// Who is behind it.
    pub place: Arc<Place>,
    /// How many connections may be open at the same time.
    pub open: Arc<Semaphore>,
}

/// Takes connections, as long as there is room for them, until `closed` resolves. Those that are taken go on then, and
/// those that wait are taken before: their clients hold them for open.
pub async fn serve(listener: TcpListener, door: Door, mut closed: oneshot::Receiver<Infallible>) {
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            _ = &mut closed => break,
        };
        match taken {
            Ok((client, peer)) => begin(client, peer, &door).await,
            Err(error) => {
                tracing::debug!(%error, "a connection is not taken yet");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    match listener.into_std() {
        Ok(listener) => take_waiting(&listener, &door).await,
        Err(error) => tracing::warn!(%error, "connections that waited for a Service that goes are reset"),
    }
}

/// Takes the connections that wait. The kernel is asked itself: the runtime knows only of those it was told about.
async fn take_waiting(listener: &std::net::TcpListener, door: &Door) {
    loop {
        let taken = listener.accept().and_then(|(client, peer)| {
            client.set_nonblocking(true)?;
            Ok((TcpStream::from_std(client)?, peer))
        });
        match taken {
            Ok((client, peer)) => begin(client, peer, door).await,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                tracing::warn!(%error, "connections that waited for a Service that goes are reset");
                return;
            }
        }
    }
}

/// Passes on a connection in a task of its own.
async fn begin(client: TcpStream, peer: SocketAddr, door: &Door) {
    // Nobody closes the semaphore.
    let Ok(permit) = door.open.clone().acquire_owned().await else {
        return;
    };
    let (place, here) = (door.place.clone(), door.address);
    tokio::spawn(async move {
        pass_on(&client, peer, here, &place).await;
        drop(permit);
    });
}

async fn pass_on(client: &TcpStream, peer: SocketAddr, here: SocketAddr, place: &Place) {
    if !is_redirected(client, here) {
        // Who comes by the listener's own address would pass by who is let in.
        return reset_at_close(client);
    }
    let Some((endpoint, counted)) = connect(peer, place).await else {
        return reset_at_close(client);
    };
    if let Err(error) = relay(client, &endpoint).await {
        tracing::trace!(%error, "a connection broke");
    }
    drop(counted);
}

/// Connects with an endpoint that answers.
async fn connect(peer: SocketAddr, place: &Place) -> Option<(TcpStream, Counted)> {
    let mut tried = Vec::new();
    for timeout in CONNECT_TIMEOUTS {
        let endpoint = place.balance().choose(peer, &tried, Instant::now(), chance())?;
        let counted = endpoint.count();
        match dial(endpoint.address, timeout).await {
            Ok(stream) => return Some((stream, counted)),
            Err(error) => {
                tracing::debug!(%error, endpoint = %endpoint.address, "an endpoint refuses, or does not answer");
            }
        }
        tried.push(endpoint.address);
    }
    None
}

/// Connects with one endpoint.
async fn dial(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // One on this node has answered by now, and no clock has to be set for it.
    let is_connected = socket.peer_addr().is_ok();
    let stream = TcpStream::from_std(socket.into())?;
    if !is_connected {
        tokio::time::timeout(timeout, stream.writable())
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
    }
    Ok(stream)
}

/// Whether a connection was sent to another address than the one that it was taken at, which is the listener's.
fn is_redirected(stream: &TcpStream, here: SocketAddr) -> bool {
    let socket = SockRef::from(stream);
    let redirected = || -> io::Result<bool> {
        let original = match here {
            SocketAddr::V4(_) => socket.original_dst_v4(),
            SocketAddr::V6(_) => socket.original_dst_v6(),
        }?;
        Ok(original.as_socket() != Some(here))
    };
    redirected().unwrap_or_else(|error| {
        tracing::debug!(%error, "where a connection was sent to is not known");
        false
    })
}
