//! Filter before an API server that answers as an older version does: HTTP without TLS, one request a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use client::{Client, ClientError, Config};
use http::Method;
use http_body_util::BodyExt;
use tokio::runtime::Runtime;

use crate::version::{ReceivedRequest, Version};

/// A running filter.
pub(crate) struct Filter {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    runtime: Runtime,
    client: Client,
    version: Mutex<Version>,
    /// Requests with the status codes of their responses.
    log: Mutex<Vec<(ReceivedRequest, u16)>>,
    /// Connections of clients, so that they can be closed.
    connections: Mutex<Vec<TcpStream>>,
}

impl Filter {
    /// Starts a filter before the server of a kubeconfig.
    pub(crate) fn start(kubeconfig: &Path, version: Version) -> Self {
        let config = Config::from_kubeconfig(kubeconfig).expect("a kubeconfig");
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async { Client::new(config) }).expect("a client");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            runtime,
            client,
            version: Mutex::new(version),
            log: Mutex::default(),
            connections: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.expect("a connection"), Arc::clone(&shared));
                locked(&state.connections).push(stream.try_clone().expect("a descriptor"));
                std::thread::spawn(move || {
                    // A client may leave at any time.
                    state.serve(&stream).ok();
                    stream.shutdown(Shutdown::Both).ok();
                });
            }
        });
        Self { address, state }
    }

    /// URL of the filter.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig for the filter.
    pub(crate) fn write_kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join("filter.conf");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: '{}'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n",
            self.url()
        );
        std::fs::write(&path, text).expect("a kubeconfig");
        path
    }

    /// Answers as another version from now on, and closes all connections, as a restart of the server does.
    pub(crate) fn become_version(&self, version: Version) {
        *locked(&self.state.version) = version;
        for connection in locked(&self.state.connections).drain(..) {
            // The client may have closed it.
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// Returns the requests so far, with the status codes of their responses.
    pub(crate) fn log(&self) -> Vec<(ReceivedRequest, u16)> {
        locked(&self.state.log).clone()
    }
}

impl State {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let Some((seen, target, content_type, body)) = read_request(stream)? else {
            return Ok(());
        };
        let version = *locked(&self.version);
        if let Some(answer) = version.answer(&seen) {
            locked(&self.log).push((seen, answer.code));
            write_head(stream, answer.code, answer.content_type)?;
            return (&*stream).write_all(answer.body.as_bytes());
        }
        let method: Method = seen.method.parse().expect("a method");
        let opened = self.client.open(method, &target, &content_type, body);
        match self.runtime.block_on(opened) {
            Ok(response) => {
                locked(&self.log).push((seen, response.status().as_u16()));
                write_head(stream, response.status().as_u16(), "application/json")?;
                let mut body = response.into_body();
                while let Some(Ok(frame)) = self.runtime.block_on(body.frame()) {
                    (&*stream).write_all(&frame.into_data().unwrap_or_default())?;
                }
                Ok(())
            }
            Err(ClientError::Status { status, .. }) => {
                locked(&self.log).push((seen, status.code));
                write_head(stream, status.code, "application/json")?;
                let body = serde_json::json!({
                    "kind": "Status", "code": status.code, "reason": status.reason, "message": status.message,
                });
                (&*stream).write_all(body.to_string().as_bytes())
            }
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}

type Request = (ReceivedRequest, String, String, Bytes);

/// Reads a request with its target, content type and body; `None` if the client closed the connection.
fn read_request(stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let (mut length, mut content_type) = (0, client::JSON.to_owned());
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().expect("a length"),
            "content-type" => value.clone_into(&mut content_type),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let seen = ReceivedRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
    };
    Ok(Some((seen, target, content_type, body.into())))
}

/// Writes the head of a response that ends with the connection (RFC 9112 section 6.3).
fn write_head(mut stream: &TcpStream, code: u16, content_type: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {code} Status\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n"
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic with the lock")
}
