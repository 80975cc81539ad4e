//! What a DNS answer costs the server.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Failure;
use crate::process::portolan;
use crate::setting::{PATIENCE, Setting, enclosed};
use crate::world;

/// Questions that are under way at the same time.
const WINDOW: usize = 64;

/// Flags of `bench dns`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// Seconds of questions
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Another DNS server that is measured in the place of Portolan's: a command line for `sh`, in which
    /// {kubeconfig} and {listen} are replaced
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed(false, |setting| {
        setting.with_api(async || {
            let clients = (0..4).map(|_| setting.client()).collect::<Result<Vec<_>, _>>()?;
            world::create(&clients, flags.services, flags.endpoints).await
        })?;
        let node = setting.cluster.nodes().next().ok_or("the testbed has no node")?;
        let listen = SocketAddr::from((setting.cluster.topology.nodes[0].member.address.ipv4, 10053));
        let started = Instant::now();
        let mut server =
            setting.start_component("the DNS server", node, command(flags, &setting, listen)?)?;
        node.enter(|| wait_for_answer(listen, flags.services - 1))??;
        println!("ready {:.3} s after exec", started.elapsed().as_secs_f64());
        server.must_run()?;
        let before = server.cpu()?;
        let answered = node.enter(|| ask(listen, flags))??;
        let cpu = (server.cpu()? - before).as_secs_f64();
        println!(
            "{answered} answers in {} s: {:.0}/s",
            flags.seconds,
            answered as f64 / flags.seconds as f64
        );
        println!("server CPU a query: {:.2} us", cpu * 1e6 / answered as f64);
        println!("resident memory: {:.1} MiB", server.resident_mib()?);
        Ok(())
    })
}

fn command(flags: &Flags, setting: &Setting, listen: SocketAddr) -> Result<Command, Failure> {
    let kubeconfig = setting.kubeconfig().display().to_string();
    if let Some(line) = &flags.command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            line.replace("{kubeconfig}", &kubeconfig)
                .replace("{listen}", &listen.to_string()),
        );
        return Ok(command);
    }
    let mut command = Command::new(portolan()?);
    command
        .arg("dns")
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--listen={listen}"));
    Ok(command)
}

/// Asks until the last Service is known.
fn wait_for_answer(server: SocketAddr, last: usize) -> Result<(), Failure> {
    let socket = connect(server)?;
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [0; 512];
    loop {
        let sent = socket.send(&question(0, last));
        if let (Ok(_), Ok(length)) = (sent, socket.recv(&mut buffer))
            && length > 7
            && buffer[3] & 0x0f == 0
            && buffer[7] > 0
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the DNS server does not answer".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Keeps a window of questions under way; the number of right answers.
fn ask(server: SocketAddr, flags: &Flags) -> Result<u64, Failure> {
    let socket = connect(server)?;
    let questions: Vec<Vec<u8>> = (0..flags.services)
        .map(|s| question((s & 0xffff) as u16, s))
        .collect();
    let end = Instant::now() + Duration::from_secs(flags.seconds);
    let mut buffer = [0; 512];
    let mut answered = 0;
    let mut next = 0;
    for _ in 0..WINDOW {
        socket.send(&questions[next % questions.len()])?;
        next += 1;
    }
    while Instant::now() < end {
        match socket.recv(&mut buffer) {
            Ok(_) if buffer[3] & 0x0f == 0 && buffer[7] == 1 => answered += 1,
            Ok(_) => return Err("a wrong answer".into()),
            Err(_) => {}
        }
        socket.send(&questions[next % questions.len()])?;
        next += 1;
    }
    Ok(answered)
}

fn connect(server: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    Ok(socket)
}

/// An A question for the cluster IP of a Service (RFC 1035 section 4.1).
fn question(id: u16, service: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend_from_slice(&u16::to_be_bytes(word));
    }
    let name = format!("s-{service}.default.svc.cluster.local");
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}
