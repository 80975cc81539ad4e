//! What containers have printed, asked of the API server.

use std::net::TcpStream;

use serde_json::json;

use crate::Outcome;
use crate::world::{AGENT_ADDRESS, World, check, container, is_ready};

pub async fn logs_are_passed_on(world: &mut World) -> Outcome {
    let crashing = container("b", "echo again; exit 1", json!({}));
    let talking = container("a", "echo one; echo two >&2; printf three; sleep 1000", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [talking, crashing]});
    world.create_pod("talking", spec).await?;
    let restarted =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][1]["restartCount"].as_u64() >= Some(1);
    world.pod_when("talking", restarted).await?;
    check(
        world.log("talking", "container=a&tailLines=1").await? == "two\n",
        "the last line",
    )?;
    check(
        world.log("talking", "container=b&previous=true").await? == "again\n",
        "the run before",
    )?;
    let stamped = world
        .log("talking", "container=a&timestamps=true&sinceSeconds=600")
        .await?;
    check(
        stamped
            .lines()
            .all(|line| line.contains('T') && line.contains("Z ")),
        &stamped,
    )?;
    let refused = async |query: &str| match world.log("talking", query).await {
        Err(error) => error.to_string(),
        Ok(text) => text,
    };
    let message = refused("").await;
    check(
        message.contains("a container name must be specified for pod talking, choose one of: [a b]"),
        &message,
    )?;
    let message = refused("container=a&previous=true").await;
    check(
        message.contains("previous terminated container \"a\" in pod \"talking\" not found"),
        &message,
    )?;
    let message = refused("container=a&tailLines=x").await;
    check(message.contains("tailLines: invalid value \"x\""), &message)?;
    world.delete_pod("talking").await?;
    world.until_gone("talking").await
}

/// A log that is followed ends with the container, and is there when the container has ended.
pub async fn following_ends_with_the_container(world: &mut World) -> Outcome {
    let main = container("a", "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done", json!({}));
    world
        .create_pod(
            "counting",
            json!({"restartPolicy": "Never", "containers": [main]}),
        )
        .await?;
    world.pod_when("counting", is_ready).await?;
    let all = "1\n2\n3\n4\n5\n";
    let followed = world.log("counting", "follow=true").await?;
    check(followed == all, &followed)?;
    world
        .pod_when("counting", |pod| pod["status"]["phase"] == "Succeeded")
        .await?;
    check(world.log("counting", "").await? == all, "after its end")?;
    world.delete_pod("counting").await?;
    world.until_gone("counting").await
}

/// Whoever has no certificate gets no connection.
pub async fn nobody_else_is_answered(world: &mut World) -> Outcome {
    let tls = std::sync::Arc::new(trust::client_config_without_verification()?);
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1")?;
    let mut connection = rustls::ClientConnection::new(tls, name)?;
    let mut stream = TcpStream::connect(AGENT_ADDRESS)?;
    let mut stream = rustls::Stream::new(&mut connection, &mut stream);
    let mut answer = Vec::new();
    let asked = std::io::Write::write_all(
        &mut stream,
        b"GET /containerLogs/default/x/a HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    .and_then(|()| std::io::Read::read_to_end(&mut stream, &mut answer));
    check(
        asked.is_err() && answer.is_empty(),
        "answered without a certificate",
    )?;
    check(world.path("agent.log").exists(), "the agent's log")
}
