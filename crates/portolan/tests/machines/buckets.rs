//! A service with buckets, as S3 has them: `moto_server`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::lab::Lab;

const PORT: u16 = 5_000;
/// A request of somebody.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// The service.
pub struct Buckets {
    address: SocketAddr,
}

impl Buckets {
    /// Starts it beside the machines; without the program, the test is skipped.
    pub fn start(lab: &mut Lab) -> Self {
        let member = lab.cluster().control_plane().expect("a machine");
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
            if let Some(status) = child.try_wait().expect("a child") {
                testbed::skip_inside(&format!("moto_server ended: {status}"));
            }
            sleep(Duration::from_millis(50));
        }
        lab.watch_over("buckets", child);
        Self { address }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a bucket.
    pub fn make(&self, lab: &Lab, bucket: &str) {
        self.ask(lab, "PUT", &format!("/{bucket}"));
    }

    /// The names of a bucket's objects, each with its text.
    pub fn objects(&self, lab: &Lab, bucket: &str) -> Vec<(String, String)> {
        let list = self.ask(lab, "GET", &format!("/{bucket}?list-type=2"));
        let names = list.split("<Key>").skip(1);
        let names = names.filter_map(|rest| rest.split_once("</Key>").map(|(name, _)| name.to_owned()));
        names
            .map(|name| {
                let text = self.ask(lab, "GET", &format!("/{bucket}/{name}"));
                (name, text)
            })
            .collect()
    }

    fn ask(&self, lab: &Lab, method: &str, path: &str) -> String {
        let member = lab.cluster().control_plane().expect("a machine");
        let mut stream = member
            .enter(|| TcpStream::connect(self.address))
            .expect("a namespace")
            .expect("a connection");
        // Nothing private is shown to who names nobody; signatures are not looked at.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: {SIGNED}\r\nConnection: close\r\n\
             Content-Length: 0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method} {path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        body.to_owned()
    }
}
