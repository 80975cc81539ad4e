//! S3-compatible object storage: `moto_server`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::test_cluster::TestCluster;

const PORT: u16 = 5_000;
/// `Authorization` header of a signed request. `moto_server` does not verify the signature.
const AUTHORIZATION: &str =
    "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Address of the running service.
pub(crate) struct BucketService {
    address: SocketAddr,
}

impl BucketService {
    /// Starts the service on the network of the nodes. Skips the test if the program is not installed.
    pub(crate) fn start(cluster: &mut TestCluster) -> Self {
        let member = cluster.network().control_plane().expect("a node");
        let address = SocketAddr::from((member.plan.address.ipv4, PORT));
        let mut command = Command::new("moto_server");
        command
            .args(["-H", &address.ip().to_string(), "-p", &PORT.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = member.spawn(&mut command) else {
            testbed::skip_inside("moto_server does not start");
        };
        while member
            .enter(|| TcpStream::connect(address).is_err())
            .expect("a namespace")
        {
            if let Some(status) = child.try_wait().expect("the state of moto_server") {
                testbed::skip_inside(&format!("moto_server exited: {status}"));
            }
            sleep(Duration::from_millis(50));
        }
        cluster.adopt_process("buckets", child);
        Self { address }
    }

    /// Returns the URL of the service.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates a bucket.
    pub(crate) fn create(&self, cluster: &TestCluster, bucket: &str) {
        self.request(cluster, "PUT", &format!("/{bucket}"));
    }

    /// Returns the objects of a bucket: names and contents.
    pub(crate) fn objects(&self, cluster: &TestCluster, bucket: &str) -> Vec<(String, String)> {
        let list = self.request(cluster, "GET", &format!("/{bucket}?list-type=2"));
        let names = list.split("<Key>").skip(1);
        let names = names.filter_map(|rest| rest.split_once("</Key>").map(|(name, _)| name.to_owned()));
        names
            .map(|name| {
                let text = self.request(cluster, "GET", &format!("/{bucket}/{name}"));
                (name, text)
            })
            .collect()
    }

    fn request(&self, cluster: &TestCluster, method: &str, path: &str) -> String {
        let member = cluster.network().control_plane().expect("a node");
        let mut stream = member
            .enter(|| TcpStream::connect(self.address))
            .expect("a namespace")
            .expect("a connection");
        // `moto_server` returns private objects to signed requests only.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: {AUTHORIZATION}\r\nConnection: close\r\n\
             Content-Length: 0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        assert!(
            response.starts_with("HTTP/1.1 200 "),
            "{method} {path}: {response}"
        );
        let (_, body) = response.split_once("\r\n\r\n").expect("a body");
        body.to_owned()
    }
}
