//! Connections that are open while an address moves: what they say must be answered, by whom they were opened to.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink::route::Connection;
use testbed::Member;

use crate::Failure;

/// Where an endpoint answers, outside.
const BACKEND: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 203);
const BACKEND_PORT: u16 = 8080;
/// How many are open while the address moves.
const COUNT: usize = 20;
/// How long an answer may take: TCP sends a lost packet again after a fifth of a second, then after twice as long each time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes said in a round.
const WORD: [u8; 64] = [b'.'; 64];

/// An endpoint outside that says everything again; its address.
pub fn backend(outside: &Member) -> Result<IpAddr, Failure> {
    outside.enter(|| -> Result<(), Failure> {
        let mut connection = Connection::open()?;
        let link = connection.link_index(&"eth0".parse()?)?;
        connection.add_address(link, IpNet::new(BACKEND.into(), 24)?)?;
        let listener = TcpListener::bind((BACKEND, BACKEND_PORT))?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(&stream));
            }
        });
        Ok(())
    })??;
    Ok(BACKEND.into())
}

fn answer(mut stream: &TcpStream) {
    let mut said = [0; 1024];
    while let Ok(bytes) = stream.read(&mut said) {
        // A client that is gone is no concern of the backend's.
        if bytes == 0 || stream.write_all(&said[..bytes]).is_err() {
            return;
        }
    }
}

/// Connects again and again until the backend answers.
pub fn wait_for(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + crate::setting::PATIENCE;
    loop {
        match Held::open(service) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Connections that are open.
pub struct Held(Vec<TcpStream>);

/// What became of them.
#[derive(Default)]
pub struct Fate {
    count: usize,
    lost: Vec<Loss>,
    exchanges: usize,
    longest: Duration,
}

/// How a connection ended that should not have.
struct Loss {
    /// The client's port.
    port: Option<u16>,
    /// Since the first round.
    after: Duration,
    was_ending: bool,
    error: std::io::Error,
}

impl Loss {
    fn of(stream: &TcpStream, begin: Instant, was_ending: bool, error: std::io::Error) -> Self {
        Self {
            port: stream.local_addr().ok().map(|address| address.port()),
            after: begin.elapsed(),
            was_ending,
            error,
        }
    }

    fn tell(&self, during: &str) -> String {
        let how = match self.error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer within {PATIENCE:?}"),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!("reset ({})", self.error),
            _ => self.error.to_string(),
        };
        let when = if self.was_ending {
            "when it was to end"
        } else {
            "while it spoke"
        };
        let port = self.port.map_or("?".to_owned(), |port| port.to_string());
        format!(
            "lost {during}: the connection from port {port}, {when}, {:.2} s after it began: {how}",
            self.after.as_secs_f64()
        )
    }
}

impl Held {
    /// Opens them, and has each said something. To be called where clients are.
    pub fn open(service: SocketAddr) -> Result<Self, Failure> {
        let open = |_| {
            let stream = TcpStream::connect_timeout(&service, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            say(&stream)?;
            Ok(stream)
        };
        Ok(Self((0..COUNT).map(open).collect::<Result<_, std::io::Error>>()?))
    }

    /// Says something by each of them in turn until it is over, and then ends them.
    pub fn talk(self, is_over: &AtomicBool) -> Fate {
        let mut fate = Fate {
            count: self.0.len(),
            ..Fate::default()
        };
        let first = Instant::now();
        let mut open = self.0;
        loop {
            let is_last = is_over.load(Ordering::Acquire);
            open.retain(|stream| {
                let begin = Instant::now();
                let said = say(stream);
                fate.exchanges += 1;
                fate.longest = fate.longest.max(begin.elapsed());
                let loss = said.err().map(|error| Loss::of(stream, first, false, error));
                let is_lost = loss.is_some();
                fate.lost.extend(loss);
                !is_lost
            });
            if is_last {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        for stream in &open {
            let loss = end(stream)
                .err()
                .map(|error| Loss::of(stream, first, true, error));
            fate.lost.extend(loss);
        }
        fate
    }
}

impl Fate {
    /// Tells of each connection that was lost, and during what.
    pub fn tell_losses(&self, during: &str) {
        for loss in &self.lost {
            println!("{}", loss.tell(during));
        }
    }

    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.lost.extend(other.lost);
        Self {
            count: self.count + other.count,
            lost: self.lost,
            exchanges: self.exchanges + other.exchanges,
            longest: self.longest.max(other.longest),
        }
    }

    /// For people.
    pub fn tell(&self) -> String {
        format!(
            "{} connections that were open, {} lost; {} exchanges, the longest took {:.0} ms",
            self.count,
            self.lost.len(),
            self.exchanges,
            self.longest.as_secs_f64() * 1e3
        )
    }
}

fn say(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(&WORD)?;
    let mut answer = [0; WORD.len()];
    stream.read_exact(&mut answer)
}

/// Ends a connection as TCP does that loses nothing.
fn end(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    match stream.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
