//! Lifecycle of sandboxes and containers.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use agent::runtime::{Execution, RuntimeError, Sandbox, SandboxEvent};
use agent::sandbox::SELF_EXE;
use agent::sandbox::protocol::{ContainerState, Program};
use rustix::process::Signal;

use crate::TIMEOUT;
use crate::fixture::{Outcome, Pod, check, shell, wait_for_log};

pub(crate) async fn echo_responds_from_its_own_namespace() -> Outcome {
    let pod = Pod::start().await?;
    let echo = agent::echo::Settings {
        pod: "web-0".to_owned(),
        namespace: "shop".to_owned(),
        node: "node-1".to_owned(),
        ports: vec![(api::object::Protocol::Tcp, 80), (api::object::Protocol::Udp, 53)],
    };
    let mut command = vec![SELF_EXE.to_owned(), agent::echo::SUBCOMMAND.to_owned()];
    command.extend(echo.arguments());
    let program = Program {
        command,
        closes_stdin_when_serving: true,
        ..Program::default()
    };
    pod.start_container("echo", program).await?;
    for address in pod.addresses.clone() {
        let gateway = if address.is_ipv4() {
            "10.244.1.1"
        } else {
            "[fd00:244:1::1]"
        };
        let client = format!("\"client\":\"{gateway}:");
        let to = SocketAddr::new(address, 80);
        let http = tokio::task::spawn_blocking(move || request_tcp(to, "GET /x HTTP/1.0\r\n\r\n")).await??;
        check(
            http.starts_with("HTTP/1.1 200 OK\r\n") && http.contains(&client),
            &http,
        )?;
        check(
            http.contains("\"pod\":\"web-0\"") && http.contains("\"path\":\"/x\""),
            &http,
        )?;
        let line = tokio::task::spawn_blocking(move || request_tcp(to, "hello\n")).await??;
        check(
            line.starts_with("{\"pod\":\"web-0\"") && line.contains(&client),
            &line,
        )?;
        let to = SocketAddr::new(address, 53);
        let datagram = tokio::task::spawn_blocking(move || request_udp(to)).await??;
        check(
            datagram.contains("\"protocol\":\"UDP\"") && datagram.contains(&client),
            &datagram,
        )?;
    }
    pod.end().await
}

/// Connects, sends `request` and reads to the end. The server listens since its start was reported.
fn request_tcp(to: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(to)?;
    stream.write_all(request.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

fn request_udp(to: SocketAddr) -> std::io::Result<String> {
    let any: IpAddr = if to.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        [0; 8].into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(b"?")?;
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

pub(crate) async fn exits_are_reported_and_names_are_reusable() -> Outcome {
    let mut pod = Pod::start().await?;
    let expect = |event: SandboxEvent, code: i32, signal: Option<i32>| match event {
        SandboxEvent::ContainerExited { name, exit }
            if name == "a" && exit.code == code && exit.signal == signal =>
        {
            Ok(())
        }
        other => Err(format!("expected exit code {code}, found {other:?}")),
    };
    pod.shell("a", "echo out; echo wrong >&2; exit 3").await?;
    expect(pod.sandbox.next_event().await, 3, None)?;
    pod.shell("a", "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done")
        .await?;
    wait_for_log(&pod.directory.prepare_log("a", 0)?, "up").await?;
    check(
        matches!(pod.shell("a", "true").await, Err(RuntimeError::Failed { .. })),
        "started twice",
    )?;
    pod.sandbox.executor().signal("a", Signal::TERM).await?;
    expect(pod.sandbox.next_event().await, 7, None)?;
    pod.shell("a", "sleep 1000").await?;
    pod.sandbox.executor().signal("a", Signal::KILL).await?;
    expect(pod.sandbox.next_event().await, 137, Some(9))?;
    let missing = Program {
        command: vec!["/no/such/program".to_owned()],
        ..Program::default()
    };
    let started = pod.start_container("a", missing).await;
    check(
        matches!(started, Err(RuntimeError::Failed { .. })),
        "a missing program was started",
    )?;
    let log = std::fs::read_to_string(pod.directory.prepare_log("a", 0)?)?;
    check(log.contains("out\n") && log.contains("wrong\n"), log)?;
    pod.end().await
}

pub(crate) async fn commands_see_the_namespaces_of_the_pod() -> Outcome {
    let pod = Pod::start().await?;
    pod.shell("main", "sleep 1000").await?;
    let executor = pod.sandbox.executor();
    let command = |script: &str| shell(script).command;
    let code = async |script: &str| match executor.execute("main", command(script), TIMEOUT).await {
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
    check(first_process == 0, "processes")?;
    let both = executor
        .execute("main", command("echo one; echo two >&2; sleep 1000 &"), TIMEOUT)
        .await?;
    check(both.output == "one\ntwo\n", format!("{both:?}"))?;
    let large = executor
        .execute("main", command("head -c 1000000 /dev/zero"), TIMEOUT)
        .await?;
    check(
        large.exit.is_some() && large.output.len() == 10240,
        "large output",
    )?;
    let timed_out = executor
        .execute(
            "main",
            command("echo here; sleep 1000"),
            Duration::from_millis(200),
        )
        .await?;
    check(
        timed_out.exit.is_none() && timed_out.output == "here\n",
        format!("{timed_out:?}"),
    )?;
    let missing = executor.execute("other", command("true"), TIMEOUT).await;
    check(
        matches!(missing, Err(RuntimeError::Failed { .. })),
        "a command ran in a missing container",
    )?;
    pod.end().await
}

pub(crate) async fn second_agent_adopts_the_sandbox() -> Outcome {
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
    // An exit without an agent must be in the state that the next agent gets.
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
        "the container still runs",
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

pub(crate) async fn kill_leaves_nothing_behind() -> Outcome {
    let links = || Ok::<_, Box<dyn Error>>(netlink::route::Connection::open()?.links()?.len());
    let (links_before, processes_before) = (links()?, processes()?);
    let mut pod = Pod::start().await?;
    // A daemon outside of the session and the process tree of the container.
    pod.shell("daemon", "setsid sleep 1000 & sleep 1000").await?;
    check(links()? == links_before + 1, "one link for each Pod")?;
    pod.sandbox.executor().signal("daemon", Signal::KILL).await?;
    pod.sandbox.next_event().await;
    let directory = pod.directory.clone();
    pod.end().await?;
    check(links()? == links_before, "a link remains")?;
    // Process 1 of the enclosure reaps the killed processes asynchronously.
    while processes()? > processes_before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    check(
        Sandbox::connect(&directory).await.is_err(),
        "the sandbox still responds",
    )
}

fn processes() -> std::io::Result<usize> {
    let is_process = |entry: &std::fs::DirEntry| {
        entry
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    };
    Ok(std::fs::read_dir("/proc")?.flatten().filter(is_process).count())
}
