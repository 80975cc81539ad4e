//! Backend of the measured proxies. The first byte of a connection selects what it does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

use super::clients::{COUNT, ECHO, HOLD};

/// Number of threads that accept connections.
const THREADS: usize = 4;

/// Connections that stay open until [`release`].
static OPEN: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());

/// Closes the connections that stay open.
pub(super) fn release() {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Starts the backend in the namespace of the current thread.
pub(super) fn serve(address: IpAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((address, 0))?;
    let bound = listener.local_addr()?;
    for _ in 0..THREADS {
        let listener = listener.try_clone()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The client closed the connection.
                drop(serve_connection(stream));
            }
        });
    }
    Ok(bound)
}

fn serve_connection(mut stream: TcpStream) -> io::Result<()> {
    let mut first = [0];
    stream.read_exact(&mut first)?;
    match first[0] {
        ECHO => stream.write_all(&first),
        COUNT => {
            std::thread::spawn(move || count(stream));
            Ok(())
        }
        HOLD => {
            stream.write_all(&first)?;
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Sends the number of received bytes at the end of the stream.
fn count(mut stream: TcpStream) -> io::Result<()> {
    let mut chunk = vec![0; 256 << 10];
    let mut total = 0_u64;
    loop {
        match stream.read(&mut chunk)? {
            0 => return stream.write_all(&total.to_be_bytes()),
            bytes => total += bytes as u64,
        }
    }
}
