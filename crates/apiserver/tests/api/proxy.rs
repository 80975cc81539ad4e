//! The `proxy` subresource of Pods and Services.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Api, authorization};

const NAMESPACE: &str = "/api/v1/namespaces/default";

/// Returns an address of this host that is not loopback, as endpoints must be.
fn outward_address(test: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address for documentation (RFC 5737); no packet is sent.
    let address = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let address = address
        .ok()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback());
    if address.is_none() {
        println!("skipped: {test}: this host has only loopback addresses");
    }
    address
}

/// A Pod's server. It returns the request head, redirects, or upgrades the connection.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(respond(stream));
    }
}

async fn respond(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    if head.starts_with("GET /echo ") {
        let switching = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        stream.write_all(switching).await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
        return;
    }
    let location = if head.contains("/redirect") {
        "location: /there\r\n"
    } else {
        ""
    };
    let response = format!(
        "HTTP/1.1 202 Accepted\r\n{location}access-control-allow-origin: *\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{head}",
        head.len()
    );
    stream.write_all(response.as_bytes()).await.unwrap();
}

/// Creates the Service `web` with a port `http` and the Pod `p` as its endpoint.
async fn set_up(api: &Api, address: SocketAddr) {
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": address.port()}]},
    });
    api.post(&format!("{NAMESPACE}/services"), &service)
        .await
        .expect(201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(&format!("{NAMESPACE}/pods"), &pod).await.expect(201);
    let status = json!({"status": {"podIP": address.ip(), "podIPs": [{"ip": address.ip()}]}});
    api.merge(&format!("{NAMESPACE}/pods/p/status"), &status)
        .await
        .expect(200);
    let endpoints = |target: Value| {
        json!({
            "metadata": {"name": "web"},
            "subsets": [{
                "addresses": [{"ip": address.ip(), "targetRef": target}],
                "ports": [{"name": "http", "port": address.port()}],
            }],
        })
    };
    let path = format!("{NAMESPACE}/endpoints/web");
    // Endpoints without an existing Pod are not reached.
    for unreachable in [
        Value::Null,
        json!({"kind": "Pod", "namespace": "default", "name": "q"}),
    ] {
        api.put(&path, &endpoints(unreachable))
            .await
            .code
            .is_success()
            .then_some(())
            .unwrap();
        let refused = api
            .get(&format!("{NAMESPACE}/services/web:http/proxy/"))
            .await
            .expect(503);
        assert_eq!(
            refused["message"],
            "no endpoints available for service \"web:http\""
        );
    }
    let pod = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    api.put(&path, &endpoints(pod)).await.expect(200);
}

#[tokio::test]
async fn proxy_to_services_without_endpoints_fails() {
    let api = Api::start().await;
    let missing = api
        .get(&format!("{NAMESPACE}/services/nope/proxy/"))
        .await
        .expect(404);
    assert_eq!(missing["details"], json!({"name": "nope", "kind": "services"}));
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    api.post(&format!("{NAMESPACE}/services"), &service)
        .await
        .expect(201);
    // As upstream: absent Endpoints are reported as the Service (API-03).
    let absent = api
        .get(&format!("{NAMESPACE}/services/web/proxy/"))
        .await
        .expect(404);
    assert_eq!(absent["message"], "services \"web\" not found");
    let endpoints = json!({"metadata": {"name": "web"}, "subsets": []});
    api.post(&format!("{NAMESPACE}/endpoints"), &endpoints)
        .await
        .expect(201);
    let none = api
        .get(&format!("{NAMESPACE}/services/web/proxy/"))
        .await
        .expect(503);
    assert_eq!(none["message"], "no endpoints available for service \"web\"");
    let port = api
        .get(&format!("{NAMESPACE}/services/web:81/proxy/"))
        .await
        .expect(503);
    assert_eq!(port["message"], "no service port 81 found for service \"web\"");
    let invalid = api
        .get(&format!("{NAMESPACE}/services/ftp:web:80/proxy/"))
        .await
        .expect(400);
    assert_eq!(invalid["message"], "invalid service request \"ftp:web:80\"");
    let root = api.get(&format!("{NAMESPACE}/services/web:80/proxy?x=1")).await;
    assert_eq!(root.code, 503);
}

#[tokio::test]
async fn proxy_reaches_pods_only() {
    let Some(ip) = outward_address("proxy_reaches_pods_only") else {
        return;
    };
    let api = Api::start().await;
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    set_up(&api, address).await;
    let serving = tokio::spawn(serve(listener));
    let web = format!("{NAMESPACE}/services/web:80/proxy");
    let headers = [("x-mine", "1")];
    let reply = api
        .send(Method::POST, &format!("{web}/a%2Fb/?q=1"), &headers, "")
        .await;
    assert_eq!(reply.code, 202);
    let head = String::from_utf8(reply.body.to_vec()).unwrap().to_lowercase();
    assert!(head.starts_with("post /a%2fb/?q=1 http/1.1\r\n"), "{head}");
    assert!(
        head.contains("x-mine: 1") && head.contains("x-forwarded-for: 127.0.0.1"),
        "{head}"
    );
    assert!(
        head.contains(&format!("x-forwarded-uri: {web}/a%2fb/\r\n")),
        "{head}"
    );
    assert!(!head.contains("authorization"), "{head}");
    assert!(reply.headers.get("access-control-allow-origin").is_none());
    let redirect = api.get(&format!("{web}/redirect")).await;
    assert_eq!(redirect.headers["location"], format!("{web}/there").as_str());
    let root = api.get(&format!("{web}?x=1")).await;
    assert_eq!(root.code, 301);
    assert_eq!(root.headers["location"], format!("{web}/?x=1").as_str());
    let pod = format!("{NAMESPACE}/pods/p:{}/proxy/x", address.port());
    assert_eq!(api.get(&pod).await.code, 202);

    let mut client = api.connect().await;
    let upgrade = format!(
        "GET {web}/echo HTTP/1.1\r\nhost: api\r\nauthorization: {}\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
        authorization()
    );
    client.write_all(upgrade.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&head)
    );
    client.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    client.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");

    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    let refused = api.get(&format!("{web}/")).await.expect(503);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("error trying to reach service: "),
        "{message}"
    );
}
