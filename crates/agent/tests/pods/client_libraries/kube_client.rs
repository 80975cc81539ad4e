//! `exec`, `attach` and `portforward` of the crate `kube`.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, AttachedProcess, TerminalSize};
use kube::{Client, Config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{CLOSED_PORT, CONTAINER, POD, PORT};
use crate::Outcome;
use crate::cluster::check;

/// Bytes of the input of a command: more than the buffers between client and command.
const INPUT_BYTES: usize = 1 << 20;

/// Returns the Pods of the namespace `default`.
pub(super) fn pods(config: Config) -> Result<Api<Pod>, Box<dyn Error>> {
    Ok(Api::namespaced(Client::try_from(config)?, "default"))
}

fn parameters() -> AttachParams {
    AttachParams::default().container(CONTAINER)
}

/// Reads a stream to its end.
async fn text(stream: Option<impl AsyncRead + Unpin>) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    stream.ok_or("no stream")?.read_to_string(&mut text).await?;
    Ok(text)
}

/// Exit code in the result of a command.
async fn exit_code(process: &mut AttachedProcess) -> Result<i32, Box<dyn Error>> {
    let result = process
        .take_status()
        .ok_or("no result")?
        .await
        .ok_or("no result")?;
    if result.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    check(
        result.reason.as_deref() == Some("NonZeroExitCode"),
        format!("{result:?}"),
    )?;
    let causes = result
        .details
        .and_then(|details| details.causes)
        .unwrap_or_default();
    let cause = causes
        .iter()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = cause.and_then(|cause| cause.message.as_deref());
    Ok(code.ok_or("no exit code")?.parse()?)
}

pub(super) async fn commands_have_streams_and_results(pods: &Api<Pod>) -> Outcome {
    let script = ["sh", "-c", "echo out; echo err >&2; exit 3"];
    let mut process = pods.exec(POD, script, &parameters()).await?;
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let (stdout, stderr) = tokio::join!(text(stdout), text(stderr));
    check(stdout? == "out\n" && stderr? == "err\n", "output of a command")?;
    let code = exit_code(&mut process).await?;
    check(code == 3, format!("exit code {code}"))?;
    let mut process = pods.exec(POD, ["true"], &parameters()).await?;
    check(exit_code(&mut process).await? == 0, "exit code of true")
}

pub(super) async fn input_ends(pods: &Api<Pod>) -> Outcome {
    let with_input = parameters().stdin(true).stderr(false);
    let mut process = pods.exec(POD, ["wc", "-c"], &with_input).await?;
    let mut stdin = process.stdin().ok_or("no input")?;
    stdin.write_all(&vec![b'x'; INPUT_BYTES]).await?;
    stdin.shutdown().await?;
    drop(stdin);
    let counted = text(process.stdout()).await?;
    check(
        counted.trim() == INPUT_BYTES.to_string(),
        format!("wc: {counted}"),
    )
}

pub(super) async fn terminals_have_a_size(pods: &Api<Pod>) -> Outcome {
    let script =
        "until [ \"$(stty size)\" = \"33 99\" ]; do sleep 0.1; done; read line; echo got $line; exit 5";
    let terminal = AttachParams::interactive_tty().container(CONTAINER);
    let mut process = pods.exec(POD, ["sh", "-c", script], &terminal).await?;
    let mut sizes = process.terminal_size().ok_or("no terminal")?;
    sizes.try_send(TerminalSize {
        width: 99,
        height: 33,
    })?;
    let mut stdin = process.stdin().ok_or("no input")?;
    stdin.write_all(b"hello\n").await?;
    let shown = text(process.stdout()).await?;
    check(shown.contains("got hello"), &shown)?;
    let code = exit_code(&mut process).await?;
    check(code == 5, format!("exit code {code}"))
}

pub(super) async fn attached_clients_receive_output(pods: &Api<Pod>) -> Outcome {
    let mut process = pods.attach(POD, &parameters().stderr(false)).await?;
    let mut received = [0; 10];
    let mut stdout = process.stdout().ok_or("no output")?;
    stdout.read_exact(&mut received).await?;
    process.abort();
    check(received == *b"tick\ntick\n", String::from_utf8_lossy(&received))
}

pub(super) async fn ports_are_forwarded(pods: &Api<Pod>) -> Outcome {
    let mut forwarder = pods.portforward(POD, &[PORT, CLOSED_PORT]).await?;
    let mut connection = forwarder.take_stream(PORT).ok_or("no stream")?;
    let refused = forwarder.take_error(CLOSED_PORT).ok_or("no error stream")?;
    connection.write_all(b"GET /x HTTP/1.0\r\n\r\n").await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    check(response.contains(&format!("\"pod\":\"{POD}\"")), &response)?;
    let message = refused.await.ok_or("no error of a closed port")?;
    check(message.contains(&CLOSED_PORT.to_string()), &message)?;
    forwarder.abort();
    Ok(())
}
