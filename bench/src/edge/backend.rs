//! The backend of both proxies: it does what a connection's first byte says.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

use super::clients::{ANSWER, COUNT, HOLD};

/// Threads that take connections and answer them.
const THREADS: usize = 4;

/// Connections that are held until [`release`].
static HELD: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());

/// Closes what is held for clients.
pub fn release() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Starts it in this thread's namespace.
pub fn serve(address: IpAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((address, 0))?;
    let at = listener.local_addr()?;
    for _ in 0..THREADS {
        let listener = listener.try_clone()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that gave up is no concern of the backend's.
                drop(answer(stream));
            }
        });
    }
    Ok(at)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut first = [0];
    stream.read_exact(&mut first)?;
    match first[0] {
        ANSWER => stream.write_all(&first),
        COUNT => {
            std::thread::spawn(move || count(stream));
            Ok(())
        }
        HOLD => {
            stream.write_all(&first)?;
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Says how many bytes came, up to the end.
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
