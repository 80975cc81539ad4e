//! `kubectl exec`, `cp`, `attach` and `port-forward`, over WebSocket and SPDY.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, check, container, is_ready};

pub(crate) const POD: &str = "streams";
/// Bytes that pass through a command.
const BULK_BYTES: usize = 10 << 20;
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Transport of a kubectl, which selects it by environment variables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    WebSocket,
    Spdy,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::WebSocket, Self::Spdy];

    pub(crate) fn kubectl(self, cluster: &Cluster, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        let uses_websocket = matches!(self, Self::WebSocket).to_string();
        command
            .env("KUBECONFIG", cluster.path("admin.conf"))
            .env("HOME", cluster.path("home"))
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", &uses_websocket)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", &uses_websocket)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs a kubectl to its end.
    async fn run(self, cluster: &Cluster, arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
        let mut command = self.kubectl(cluster, arguments);
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    /// Runs a script in the Pod.
    async fn script(self, cluster: &Cluster, script: &str) -> Result<Output, Box<dyn Error>> {
        self.run(cluster, &["exec", POD, "-c", "a", "--", "sh", "-c", script])
            .await
    }
}

/// Process that is killed in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.kill().and_then(|()| self.0.wait()).is_err() {
            eprintln!("kubectl not killed");
        }
    }
}

/// Returns true if kubectl is installed; prints that `test` is skipped otherwise.
pub(crate) fn has_kubectl(test: &str) -> bool {
    let found = Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {test}: kubectl is not installed");
    }
    found
}

/// Creates the Pod of these tests, unless it exists.
pub(crate) async fn prepare(cluster: &Cluster) -> Outcome {
    fs::create_dir_all(cluster.path("home"))?;
    let path = format!("{}/{POD}", crate::cluster::PODS);
    if cluster.client.get::<Value>(&path).await.is_err() {
        let main = container(
            "a",
            "while :; do echo tick; echo tock >&2; sleep 0.2; done",
            json!({}),
        );
        let other = container("b", "sleep 1000", json!({}));
        let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main, other]});
        cluster.create_pod(POD, spec).await?;
    }
    cluster.wait_for_pod(POD, is_ready).await?;
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) async fn commands_have_streams_and_exit_codes(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::commands_have_streams_and_exit_codes") {
        return Ok(());
    }
    prepare(cluster).await?;
    for transport in Transport::ALL {
        let output = transport
            .script(cluster, "echo out; echo \"é & $HOSTNAME\" >&2; exit 3")
            .await?;
        let shown = format!("{transport:?}: {output:?}");
        check(output.status.code() == Some(3), &shown)?;
        check(output.stdout == b"out\n", &shown)?;
        check(text(&output.stderr).contains("é & streams"), &shown)?;
        let output = transport
            .run(cluster, &["exec", POD, "-c", "a", "--", "no-such-program"])
            .await?;
        let message = text(&output.stderr);
        check(!output.status.success(), &message)?;
        check(message.contains("error executing command in container"), &message)?;
        let output = transport
            .run(cluster, &["exec", POD, "-c", "other", "--", "true"])
            .await?;
        let message = text(&output.stderr);
        check(message.contains("container other is not"), &message)?;
    }
    Ok(())
}

pub(crate) async fn input_passes_through_to_its_end(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::input_passes_through_to_its_end") {
        return Ok(());
    }
    prepare(cluster).await?;
    let content: Vec<u8> = (0..BULK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
    let file = cluster.path("bulk");
    fs::write(&file, &content)?;
    for transport in Transport::ALL {
        let mut command = transport.kubectl(
            cluster,
            &["exec", "-i", POD, "-c", "a", "--", "sh", "-c", "cat; exit 7"],
        );
        command.stdin(File::open(&file)?);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let shown = format!(
            "{transport:?}: {} bytes, {}",
            output.stdout.len(),
            text(&output.stderr)
        );
        check(output.stdout == content, &shown)?;
        check(output.status.code() == Some(7), &shown)?;
        // A command that does not read its input ends nevertheless.
        let mut command =
            transport.kubectl(cluster, &["exec", "-i", POD, "-c", "a", "--", "head", "-c", "3"]);
        command.stdin(File::open(&file)?);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        check(
            output.stdout == content[..3],
            format!("{transport:?}: {output:?}"),
        )?;
        let (from, to) = (file.display().to_string(), format!("{POD}:/tmp/bulk"));
        let output = transport.run(cluster, &["cp", "-c", "a", &from, &to]).await?;
        check(output.status.success(), text(&output.stderr))?;
        let output = transport.script(cluster, "cat /tmp/bulk; rm /tmp/bulk").await?;
        check(
            output.stdout == content,
            format!("{transport:?}: {} bytes copied", output.stdout.len()),
        )?;
    }
    Ok(())
}

/// Runs a command in a terminal of 33 rows and 99 columns, types a line, and returns the output with the exit code.
/// `script` provides the terminal.
async fn in_terminal(
    transport: Transport,
    cluster: &Cluster,
    command: &str,
) -> Result<(String, Option<i32>), Box<dyn Error>> {
    let command = format!("stty rows 33 cols 99; {command}");
    let mut script = Command::new("script");
    for (name, value) in transport.kubectl(cluster, &[]).get_envs() {
        if let Some(value) = value {
            script.env(name, value);
        }
    }
    script
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = Running(script.spawn()?);
    let mut stdin = running.0.stdin.take().ok_or("no standard input")?;
    let mut stdout = running.0.stdout.take().ok_or("no standard output")?;
    stdin.write_all(b"hello\n")?;
    let shown = tokio::task::spawn_blocking(move || {
        let mut shown = String::new();
        stdout.read_to_string(&mut shown).map(|_| shown)
    })
    .await??;
    let code = running.0.wait()?.code();
    drop(stdin);
    Ok((shown, code))
}

pub(crate) async fn terminals_have_size_and_name(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::terminals_have_size_and_name") {
        return Ok(());
    }
    prepare(cluster).await?;
    for transport in Transport::ALL {
        let inner = "until [ \"$(stty size)\" = \"33 99\" ]; do sleep 0.1; done; tty; echo $TERM; read line; echo got $line; exit 5";
        let command = format!("kubectl exec -it {POD} -c a -- sh -c '{inner}'");
        let (shown, code) = in_terminal(transport, cluster, &command).await?;
        check(shown.contains("/dev/pts/") && shown.contains("xterm"), &shown)?;
        check(shown.contains("got hello"), &shown)?;
        check(
            code == Some(5),
            format!("{transport:?}: exit code {code:?}: {shown}"),
        )?;
    }
    Ok(())
}

pub(crate) async fn commands_end_with_their_client(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::commands_end_with_their_client") {
        return Ok(());
    }
    prepare(cluster).await?;
    for transport in Transport::ALL {
        let count = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 43[2]1'";
        let arguments = ["exec", POD, "-c", "a", "--", "sleep", "4321"];
        let running = Running(transport.kubectl(cluster, &arguments).spawn()?);
        while text(&transport.script(cluster, count).await?.stdout).trim() == "0" {
            tokio::time::sleep(PAUSE).await;
        }
        drop(running);
        while text(&transport.script(cluster, count).await?.stdout).trim() != "0" {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

pub(crate) async fn attached_clients_receive_output(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::attached_clients_receive_output") {
        return Ok(());
    }
    prepare(cluster).await?;
    for transport in Transport::ALL {
        let mut command = transport.kubectl(cluster, &["attach", POD, "-c", "a"]);
        let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        let mut stdout = running.0.stdout.take().ok_or("no standard output")?;
        let stderr = running.0.stderr.take().ok_or("no standard error")?;
        let (received, errors) = tokio::task::spawn_blocking(move || {
            let mut received = [0; 10];
            stdout.read_exact(&mut received)?;
            // kubectl writes notices of its own to its standard error.
            let mut errors = String::new();
            let mut reader = BufReader::new(stderr);
            while !errors.contains("tock\n") && reader.read_line(&mut errors)? > 0 {}
            Ok::<_, std::io::Error>((received, errors))
        })
        .await??;
        check(errors.contains("tock\n"), &errors)?;
        check(received == *b"tick\ntick\n", text(&received))?;
    }
    Ok(())
}

/// Returns true if the Pod has the phase.
fn has_phase(phase: &str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == phase
}

pub(crate) async fn containers_read_the_input_of_attached_clients(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::containers_read_the_input_of_attached_clients") {
        return Ok(());
    }
    prepare(cluster).await?;
    let file = cluster.path("typed");
    fs::write(&file, "first\nsecond\n")?;
    for (transport, pod) in Transport::ALL.into_iter().zip(["attached-1", "attached-2"]) {
        let script = "read line; echo got $line; cat; echo closed";
        let main = container("a", script, json!({"stdin": true, "stdinOnce": true}));
        cluster
            .create_pod(pod, json!({"restartPolicy": "Never", "containers": [main]}))
            .await?;
        cluster.wait_for_pod(pod, has_phase("Running")).await?;
        let mut command = transport.kubectl(cluster, &["attach", "-i", pod, "-c", "a"]);
        command.stdin(File::open(&file)?);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let shown = format!("{transport:?}: {output:?}");
        check(
            text(&output.stdout).contains("got first\nsecond\nclosed\n"),
            &shown,
        )?;
        check(output.status.success(), &shown)?;
        cluster.wait_for_pod(pod, has_phase("Succeeded")).await?;
        let log = cluster.log(pod, "").await?;
        check(log.ends_with("second\nclosed\n"), &log)?;
    }
    Ok(())
}

pub(crate) async fn attached_clients_share_the_terminal_of_a_container(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::attached_clients_share_the_terminal_of_a_container") {
        return Ok(());
    }
    prepare(cluster).await?;
    for (transport, pod) in Transport::ALL.into_iter().zip(["terminal-1", "terminal-2"]) {
        // script(1) drops output that it has not read at the exit of kubectl.
        let script = "until [ \"$(stty size)\" = \"33 99\" ]; do sleep 0.1; done; tty; echo $TERM; read line; \
                      echo got $line; sleep 1; exit 5";
        let main = container("a", script, json!({"stdin": true, "tty": true}));
        cluster
            .create_pod(pod, json!({"restartPolicy": "Never", "containers": [main]}))
            .await?;
        cluster.wait_for_pod(pod, has_phase("Running")).await?;
        let command = format!("kubectl attach -it {pod} -c a");
        let (shown, _) = in_terminal(transport, cluster, &command).await?;
        check(shown.contains("/dev/pts/") && shown.contains("xterm"), &shown)?;
        check(shown.contains("got hello"), &shown)?;
        let failed = cluster.wait_for_pod(pod, has_phase("Failed")).await?;
        let state = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
        check(state["exitCode"] == 5, state)?;
    }
    Ok(())
}

pub(crate) async fn interactive_pods_run_and_are_removed(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::interactive_pods_run_and_are_removed") {
        return Ok(());
    }
    prepare(cluster).await?;
    let file = cluster.path("typed");
    fs::write(&file, "first\nsecond\n")?;
    for transport in Transport::ALL {
        let overrides = json!({"apiVersion": "v1", "spec": {"nodeName": crate::cluster::NODE}}).to_string();
        let arguments = [
            "run",
            "interactive",
            "--image=shell",
            "--restart=Never",
            "-i",
            "--rm",
            "--overrides",
            &overrides,
            "--",
            "cat; echo end",
        ];
        let mut command = transport.kubectl(cluster, &arguments);
        command.stdin(File::open(&file)?);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let shown = format!("{transport:?}: {output:?}");
        check(text(&output.stdout).contains("first\nsecond\nend\n"), &shown)?;
        check(output.status.success(), &shown)?;
        cluster.wait_until_gone("interactive").await?;
    }
    Ok(())
}

pub(crate) async fn ports_are_forwarded(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::ports_are_forwarded") {
        return Ok(());
    }
    prepare(cluster).await?;
    let echo = json!({"name": "echo", "image": "portolan.dev/echo", "ports": [{"containerPort": 8080}]});
    cluster
        .create_pod(
            "forwarded",
            json!({"terminationGracePeriodSeconds": 1, "containers": [echo]}),
        )
        .await?;
    cluster.wait_for_pod("forwarded", is_ready).await?;
    for (transport, port) in Transport::ALL.into_iter().zip([18081, 18082]) {
        let ports = [format!("{port}:8080"), format!("{}:9", port + 10)];
        let mut command =
            transport.kubectl(cluster, &["port-forward", "pod/forwarded", &ports[0], &ports[1]]);
        let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        let mut all = Vec::new();
        while all.len() < 4 {
            let Ok(connection) = TcpStream::connect(("127.0.0.1", port)) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            all.push(connection);
        }
        let responses = tokio::task::spawn_blocking(move || {
            let mut responses = Vec::new();
            for connection in &mut all {
                connection.write_all(b"GET /x HTTP/1.0\r\n\r\n")?;
            }
            for mut connection in all {
                let mut response = String::new();
                connection.read_to_string(&mut response)?;
                responses.push(response);
            }
            Ok::<_, std::io::Error>(responses)
        })
        .await??;
        for response in responses {
            check(
                response.contains("\"pod\":\"forwarded\""),
                format!("{transport:?}: {response}"),
            )?;
        }
        let mut refused = TcpStream::connect(("127.0.0.1", port + 10))?;
        let ended = tokio::task::spawn_blocking(move || refused.read(&mut [0])).await?;
        check(!matches!(ended, Ok(1..)), format!("{transport:?}: {ended:?}"))?;
        let mut stderr = running.0.stderr.take().ok_or("no standard error")?;
        drop(running);
        let mut message = String::new();
        stderr.read_to_string(&mut message)?;
        check(
            message.contains("error forwarding port 9 to pod forwarded"),
            &message,
        )?;
    }
    cluster.delete_pod("forwarded").await?;
    cluster.wait_until_gone("forwarded").await
}

/// `get` alone does not open streams, though WebSocket clients use the method GET.
pub(crate) async fn streams_need_the_right_to_create(cluster: &mut Cluster) -> Outcome {
    if !has_kubectl("streams::streams_need_the_right_to_create") {
        return Ok(());
    }
    prepare(cluster).await?;
    let rule = |verbs: Value| json!({"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": verbs});
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    for (user, verbs) in [("reader", json!(["get"])), ("operator", json!(["get", "create"]))] {
        let api_version = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": api_version, "kind": "Role", "metadata": {"name": user}, "rules": [rule(verbs)]});
        cluster.create(roles, &role).await?;
        let binding = json!({
            "apiVersion": api_version, "kind": "RoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        cluster.create(bindings, &binding).await?;
    }
    for transport in Transport::ALL {
        let run = async |user| {
            let arguments = ["--as", user, "exec", POD, "-c", "a", "--", "echo", "in"];
            transport.run(cluster, &arguments).await
        };
        let refused = run("reader").await?;
        let message = text(&refused.stderr);
        check(refused.stdout.is_empty() && !refused.status.success(), &message)?;
        check(
            message.contains("User \"reader\" cannot create resource \"pods/exec\""),
            &message,
        )?;
        let allowed = run("operator").await?;
        check(allowed.stdout == b"in\n", text(&allowed.stderr))?;
    }
    cluster.delete_pod(POD).await?;
    cluster.wait_until_gone(POD).await
}
