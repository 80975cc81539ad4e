//! Connections that are open while an address moves: what they say must be answered, by whom they were opened to.

use std::io::{Read, Write};
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
    lost: usize,
    exchanges: usize,
    longest: Duration,
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
        let mut open = self.0;
        loop {
            let is_last = is_over.load(Ordering::Acquire);
            open.retain(|stream| {
                let begin = Instant::now();
                let is_answered = say(stream).is_ok();
                fate.exchanges += 1;
                fate.longest = fate.longest.max(begin.elapsed());
                is_answered
            });
            if is_last {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let ended = open.iter().filter(|stream| end(stream).is_ok()).count();
        fate.lost = fate.count - ended;
        fate
    }
}

impl Fate {
    /// Both.
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            lost: self.lost + other.lost,
            exchanges: self.exchanges + other.exchanges,
            longest: self.longest.max(other.longest),
        }
    }

    /// For people.
    pub fn tell(&self) -> String {
        format!(
            "{} connections that were open, {} lost; {} exchanges, the longest took {:.0} ms",
            self.count,
            self.lost,
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
