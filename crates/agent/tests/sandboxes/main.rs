//! Pods' sandboxes with real processes in a real network namespace: started, spoken to, taken over by a second
//! agent, ended without a trace. The binary is its own sandbox program, so it has no test harness.

mod confined;
mod users;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use agent::network::{self, addresses::AddressPool};
use agent::runtime::{Execution, Happening, RuntimeError, Sandbox};
use agent::sandbox::protocol::{ContainerState, Program};
use agent::sandbox::{self, OWN_PROGRAM};
use agent::state_directory::{PodDirectory, Record, StateDirectory};
use agent::user_namespaces::Holder;
use rustix::process::Signal;

type Outcome = Result<(), Box<dyn Error>>;

const UID: &str = "3f2c7a9e-0000-4000-8000-000000000001";
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    if arguments.first().map(String::as_str) == Some(confined::CALLS_SUBCOMMAND) {
        confined::attempt_calls();
        return ExitCode::SUCCESS;
    }
    // Asked by `cargo test -- --list` and by tools that look for tests.
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    match testbed::enclose(None) {
        Ok(Some(status)) => {
            return if status.success() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        Ok(None) => {}
        Err(error) => {
            eprintln!("skipped: sandboxes: {error}");
            return ExitCode::SUCCESS;
        }
    }
    match inside() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inside() -> Outcome {
    let has_own_proc = testbed::settle()?.has_own_proc;
    network::prepare_node();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        run(
            "echo_answers_from_its_own_namespace",
            echo_answers_from_its_own_namespace(),
        )
        .await?;
        run(
            "ends_are_told_and_names_are_free_again",
            ends_are_told_and_names_are_free_again(),
        )
        .await?;
        run(
            "programs_see_the_pods_own_machine",
            programs_see_the_pods_own_machine(has_own_proc),
        )
        .await?;
        run("a_second_agent_takes_over", a_second_agent_takes_over()).await?;
        run_confined().await?;
        users::run_all().await?;
        run("nothing_survives_a_kill", nothing_survives_a_kill()).await
    })
}

async fn run_confined() -> Outcome {
    run(
        "credentials_of_the_node_are_out_of_sight",
        confined::credentials_of_the_node_are_out_of_sight(),
    )
    .await?;
    run(
        "the_nodes_files_and_devices_stay_as_they_are",
        confined::the_nodes_files_and_devices_stay_as_they_are(),
    )
    .await?;
    run("system_calls_are_filtered", confined::system_calls_are_filtered()).await?;
    run(
        "privileged_containers_have_the_node",
        confined::privileged_containers_have_the_node(),
    )
    .await?;
    run(
        "working_directories_lead_to_no_file_of_the_agent",
        confined::working_directories_lead_to_no_file_of_the_agent(),
    )
    .await?;
    run(
        "places_in_volumes_are_made_through_no_link",
        confined::places_in_volumes_are_made_through_no_link(),
    )
    .await
}

async fn run(name: &str, test: impl Future<Output = Outcome>) -> Outcome {
    match tokio::time::timeout(PATIENCE, test).await {
        Ok(Ok(())) => {
            println!("test {name} ... ok");
            Ok(())
        }
        Ok(Err(error)) => Err(format!("{name}: {error}").into()),
        Err(_) => Err(format!("{name}: not done within {PATIENCE:?}").into()),
    }
}

/// A Pod's directory, network and sandbox.
struct Pod {
    root: tempfile::TempDir,
    directory: PodDirectory,
    sandbox: Sandbox,
    addresses: Vec<IpAddr>,
}

impl Pod {
    async fn start() -> Result<Self, Box<dyn Error>> {
        Self::start_with(None).await
    }

    /// Starts a Pod, with the namespaces that a process holds for it.
    async fn start_with(holder: Option<Holder>) -> Result<Self, Box<dyn Error>> {
        let root = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
        let directory = StateDirectory::open(root.path())?.pod(UID)?;
        let mut pool = AddressPool::new(vec!["10.244.1.0/24".parse()?, "fd00:244:1::/64".parse()?])?;
        let addresses = pool.allocate()?;
        directory.create(&Record {
            uid: UID.to_owned(),
            addresses: addresses.clone(),
            ..Record::default()
        })?;
        let (link, gateways) = (network::link_name(UID)?, pool.gateways());
        let namespace = match &holder {
            Some(holder) => {
                let own = holder.network()?;
                network::connect_to(&own, &link, &addresses, &gateways)?;
                own
            }
            None => network::connect(&link, &addresses, &gateways)?,
        };
        let settings = sandbox::Settings {
            socket: directory.socket(),
            hostname: Some("web-0".to_owned()),
            resolv_conf: directory.write("resolv.conf", "nameserver 10.96.0.10\n")?,
            hidden: vec![root.path().to_owned()],
            namespaces_of: holder.as_ref().map(Holder::pid),
        };
        let sandbox = Sandbox::start(&directory, &settings, Some(&namespace)).await?;
        Ok(Self {
            root,
            directory,
            sandbox,
            addresses,
        })
    }

    async fn shell(&self, name: &str, script: &str) -> Result<(), RuntimeError> {
        let log = self.directory.prepare_log(name, 0).expect("a place for the log");
        self.sandbox.start_container(name, shell(script), &log).await
    }

    /// What a container has printed, once that has a word in it.
    async fn log_when(&self, name: &str, word: &str) -> Result<String, Box<dyn Error>> {
        let path = self.directory.log(name, 0);
        wait_for_log(&path, word).await?;
        Ok(std::fs::read_to_string(path)?)
    }

    async fn end(self) -> Outcome {
        self.sandbox.kill().await?;
        network::disconnect(&network::link_name(UID)?)?;
        Ok(())
    }
}

fn shell(script: &str) -> Program {
    Program {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        ..Program::default()
    }
}

fn check(holds: bool, what: impl std::fmt::Display) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.to_string().into())
    }
}

async fn echo_answers_from_its_own_namespace() -> Outcome {
    let pod = Pod::start().await?;
    let echo = agent::echo::Settings {
        pod: "web-0".to_owned(),
        namespace: "shop".to_owned(),
        node: "node-1".to_owned(),
        ports: vec![(api::object::Protocol::Tcp, 80), (api::object::Protocol::Udp, 53)],
    };
    let mut command = vec![OWN_PROGRAM.to_owned(), agent::echo::SUBCOMMAND.to_owned()];
    command.extend(echo.arguments());
    let program = Program {
        command,
        ..Program::default()
    };
    pod.sandbox
        .start_container("echo", program, &pod.directory.prepare_log("echo", 0)?)
        .await?;
    for address in pod.addresses.clone() {
        let gateway = if address.is_ipv4() {
            "10.244.1.1"
        } else {
            "[fd00:244:1::1]"
        };
        let client = format!("\"client\":\"{gateway}:");
        let to = SocketAddr::new(address, 80);
        let http = tokio::task::spawn_blocking(move || ask_tcp(to, "GET /x HTTP/1.0\r\n\r\n")).await??;
        check(
            http.starts_with("HTTP/1.1 200 OK\r\n") && http.contains(&client),
            &http,
        )?;
        check(
            http.contains("\"pod\":\"web-0\"") && http.contains("\"path\":\"/x\""),
            &http,
        )?;
        let line = tokio::task::spawn_blocking(move || ask_tcp(to, "hello\n")).await??;
        check(
            line.starts_with("{\"pod\":\"web-0\"") && line.contains(&client),
            &line,
        )?;
        let to = SocketAddr::new(address, 53);
        let datagram = tokio::task::spawn_blocking(move || ask_udp(to)).await??;
        check(
            datagram.contains("\"protocol\":\"UDP\"") && datagram.contains(&client),
            &datagram,
        )?;
    }
    pod.end().await
}

/// Tries until the server listens, then says `request` and reads to the end.
fn ask_tcp(to: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = loop {
        match TcpStream::connect(to) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => break other?,
        }
    };
    stream.write_all(request.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn ask_udp(to: SocketAddr) -> std::io::Result<String> {
    let any: IpAddr = if to.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        [0; 8].into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(b"?")?;
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

async fn ends_are_told_and_names_are_free_again() -> Outcome {
    let mut pod = Pod::start().await?;
    let expect = |happening: Happening, code: i32, signal: Option<i32>| match happening {
        Happening::Ended { name, exit } if name == "a" && exit.code == code && exit.signal == signal => {
            Ok(())
        }
        other => Err(format!("{other:?} instead of {code}")),
    };
    pod.shell("a", "echo said; echo wrong >&2; exit 3").await?;
    expect(pod.sandbox.next().await, 3, None)?;
    pod.shell("a", "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done")
        .await?;
    wait_for_log(&pod.directory.prepare_log("a", 0)?, "up").await?;
    check(
        matches!(pod.shell("a", "true").await, Err(RuntimeError::Refused { .. })),
        "started twice",
    )?;
    pod.sandbox.executor().signal("a", Signal::TERM).await?;
    expect(pod.sandbox.next().await, 7, None)?;
    pod.shell("a", "sleep 1000").await?;
    pod.sandbox.executor().signal("a", Signal::KILL).await?;
    expect(pod.sandbox.next().await, 137, Some(9))?;
    let missing = Program {
        command: vec!["/no/such/program".to_owned()],
        ..Program::default()
    };
    let refused = pod
        .sandbox
        .start_container("a", missing, &pod.directory.prepare_log("a", 0)?)
        .await;
    check(
        matches!(refused, Err(RuntimeError::Refused { .. })),
        "a program that is not there",
    )?;
    let log = std::fs::read_to_string(pod.directory.prepare_log("a", 0)?)?;
    check(log.contains("said\n") && log.contains("wrong\n"), log)?;
    pod.end().await
}

async fn wait_for_log(path: &Path, word: &str) -> Outcome {
    while !std::fs::read_to_string(path).unwrap_or_default().contains(word) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A container that masks its own /proc forbids to mount another.
async fn programs_see_the_pods_own_machine(has_own_proc: bool) -> Outcome {
    let pod = Pod::start().await?;
    pod.shell("main", "sleep 1000").await?;
    let executor = pod.sandbox.executor();
    let command = |script: &str| shell(script).command;
    let code = async |script: &str| match executor.execute("main", command(script), PATIENCE).await {
        Ok(Execution { exit: Some(exit), .. }) => exit.code,
        other => panic!("{script}: {other:?}"),
    };
    check(code("exit 4").await == 4, "exit status")?;
    check(code("test $(uname -n) = web-0").await == 0, "host name")?;
    check(
        code("grep -qx 'nameserver 10.96.0.10' /etc/resolv.conf").await == 0,
        "resolv.conf",
    )?;
    check(
        code("grep -q eth0 /proc/net/dev && ! grep -q pod /proc/net/dev").await == 0,
        "links",
    )?;
    let first_process = code("grep -q portolan-sandbox /proc/1/cmdline").await;
    check(first_process == 0 || !has_own_proc, "processes")?;
    let said = executor
        .execute("main", command("echo one; echo two >&2; sleep 1000 &"), PATIENCE)
        .await?;
    check(said.output == "one\ntwo\n", format!("{said:?}"))?;
    let loud = executor
        .execute("main", command("head -c 1000000 /dev/zero"), PATIENCE)
        .await?;
    check(loud.exit.is_some() && loud.output.len() == 10240, "much output")?;
    let slow = executor
        .execute(
            "main",
            command("echo here; sleep 1000"),
            Duration::from_millis(200),
        )
        .await?;
    check(
        slow.exit.is_none() && slow.output == "here\n",
        format!("{slow:?}"),
    )?;
    let nowhere = executor.execute("other", command("true"), PATIENCE).await;
    check(
        matches!(nowhere, Err(RuntimeError::Refused { .. })),
        "no such container",
    )?;
    pod.end().await
}

async fn a_second_agent_takes_over() -> Outcome {
    let pod = Pod::start().await?;
    pod.shell("stays", "sleep 1000").await?;
    pod.shell("ends", "exit 5").await?;
    let Pod {
        root,
        directory,
        sandbox,
        addresses,
    } = pod;
    drop(sandbox);
    // What happens while no agent is there must be heard by the next one.
    let (sandbox, containers) = loop {
        let (sandbox, containers) = Sandbox::connect(&directory).await?;
        if matches!(containers.get("ends"), Some(ContainerState::Ended(exit)) if exit.code == 5) {
            break (sandbox, containers);
        }
        drop(sandbox);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    check(
        matches!(containers.get("stays"), Some(ContainerState::Running { .. })),
        "it runs on",
    )?;
    Pod {
        root,
        directory,
        sandbox,
        addresses,
    }
    .end()
    .await
}

async fn nothing_survives_a_kill() -> Outcome {
    let links = || Ok::<_, Box<dyn Error>>(netlink::route::Connection::open()?.links()?.len());
    let (links_before, processes_before) = (links()?, processes()?);
    let mut pod = Pod::start().await?;
    // A daemon that has left its session and its parent.
    pod.shell("daemon", "setsid sleep 1000 & sleep 1000").await?;
    check(links()? == links_before + 1, "one link a Pod")?;
    pod.sandbox.executor().signal("daemon", Signal::KILL).await?;
    pod.sandbox.next().await;
    let directory = pod.directory.clone();
    pod.end().await?;
    check(links()? == links_before, "a link is left")?;
    // Pid 1 of the enclosure reaps the killed processes in its own time.
    while processes()? > processes_before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    check(
        Sandbox::connect(&directory).await.is_err(),
        "the sandbox answers still",
    )
}

fn processes() -> std::io::Result<usize> {
    let is_process = |entry: &std::fs::DirEntry| {
        entry
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|b| b.is_ascii_digit())
    };
    Ok(std::fs::read_dir("/proc")?.flatten().filter(is_process).count())
}
