//! Logs of containers through the API server.

use std::net::TcpStream;

use serde_json::json;

use crate::Outcome;
use crate::cluster::{AGENT_ADDRESS, Cluster, check, container, is_ready};

pub(crate) async fn api_server_returns_logs(cluster: &mut Cluster) -> Outcome {
    let crashing = container("b", "echo again; exit 1", json!({}));
    let printing = container("a", "echo one; echo two >&2; printf three; sleep 1000", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [printing, crashing]});
    cluster.create_pod("talking", spec).await?;
    let restarted =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][1]["restartCount"].as_u64() >= Some(1);
    cluster.wait_for_pod("talking", restarted).await?;
    check(
        cluster.log("talking", "container=a&tailLines=1").await? == "two\n",
        "the last line",
    )?;
    check(
        cluster.log("talking", "container=b&previous=true").await? == "again\n",
        "the run before",
    )?;
    check(
        cluster.log("talking", "container=a&stream=Stdout").await? == "one\n",
        "the standard output",
    )?;
    check(
        cluster.log("talking", "container=a&stream=Stderr").await? == "two\n",
        "the standard error",
    )?;
    let stamped = cluster
        .log("talking", "container=a&timestamps=true&sinceSeconds=600")
        .await?;
    check(
        stamped
            .lines()
            .all(|line| line.contains('T') && line.contains("Z ")),
        &stamped,
    )?;
    let error = async |query: &str| match cluster.log("talking", query).await {
        Err(error) => error.to_string(),
        Ok(text) => text,
    };
    let message = error("").await;
    check(
        message.contains("a container name must be specified for pod talking, choose one of: [a b]"),
        &message,
    )?;
    let message = error("container=a&previous=true").await;
    check(
        message.contains("previous terminated container \"a\" in pod \"talking\" not found"),
        &message,
    )?;
    let message = error("container=a&tailLines=x").await;
    check(
        message.contains("strconv.ParseInt: parsing \"x\": invalid syntax"),
        &message,
    )?;
    cluster.delete_pod("talking").await?;
    cluster.wait_until_gone("talking").await
}

/// A followed log ends with the container. The log stays readable afterwards.
pub(crate) async fn following_ends_with_the_container(cluster: &mut Cluster) -> Outcome {
    let main = container("a", "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done", json!({}));
    cluster
        .create_pod(
            "counting",
            json!({"restartPolicy": "Never", "containers": [main]}),
        )
        .await?;
    cluster.wait_for_pod("counting", is_ready).await?;
    let all = "1\n2\n3\n4\n5\n";
    let followed = cluster.log("counting", "follow=true").await?;
    check(followed == all, &followed)?;
    cluster
        .wait_for_pod("counting", |pod| pod["status"]["phase"] == "Succeeded")
        .await?;
    check(cluster.log("counting", "").await? == all, "after its end")?;
    cluster.delete_pod("counting").await?;
    cluster.wait_until_gone("counting").await
}

/// A client without a certificate fails in the handshake.
pub(crate) async fn rejects_clients_without_certificate(cluster: &mut Cluster) -> Outcome {
    let tls = std::sync::Arc::new(trust::client_config_without_verification()?);
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1")?;
    let mut connection = rustls::ClientConnection::new(tls, name)?;
    let mut stream = TcpStream::connect(AGENT_ADDRESS)?;
    let mut stream = rustls::Stream::new(&mut connection, &mut stream);
    let mut response = Vec::new();
    let exchange = std::io::Write::write_all(
        &mut stream,
        b"GET /containerLogs/default/x/a HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    .and_then(|()| std::io::Read::read_to_end(&mut stream, &mut response));
    check(
        exchange.is_err() && response.is_empty(),
        "a response without a certificate",
    )?;
    check(cluster.path("agent.log").exists(), "the agent's log")
}
