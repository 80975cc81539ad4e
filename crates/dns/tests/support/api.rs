//! API server for the three kinds that DNS reads. It can be killed, and its history can be lost.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const COLLECTIONS: [&str; 3] = ["endpointslices", "namespaces", "services"];

/// Objects with their history.
#[derive(Default)]
struct History {
    revision: u64,
    /// Revision of the last compaction.
    compacted: u64,
    objects: BTreeMap<(&'static str, String), Value>,
    /// Revision, collection, and event.
    events: Vec<(u64, &'static str, Value)>,
}

/// The server and its objects.
pub(super) struct Api {
    history: Arc<Mutex<History>>,
    changed: watch::Sender<u64>,
    pub address: SocketAddr,
    running: Option<JoinHandle<()>>,
}

impl Api {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a socket");
        let mut this = Self {
            history: Arc::default(),
            changed: watch::Sender::new(0),
            address: listener.local_addr().expect("bound"),
            running: None,
        };
        this.serve(listener);
        this
    }

    fn serve(&mut self, listener: TcpListener) {
        let (history, changed) = (self.history.clone(), self.changed.subscribe());
        self.running = Some(tokio::spawn(async move {
            // Connections end with the server.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve_requests(stream, history.clone(), changed.clone()));
            }
        }));
    }

    /// Kills the server and all of its connections.
    pub(super) async fn kill(&mut self) {
        let running = self.running.take().expect("a running server");
        running.abort();
        drop(running.await);
    }

    /// Starts again at the same address.
    pub(super) async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("its own port");
        self.serve(listener);
    }

    /// Writes an object; deletes it if `content` is `None`.
    pub(super) fn write(&self, collection: &'static str, name: &str, content: Option<Value>) {
        let mut history = lock(&self.history);
        history.revision += 1;
        let revision = history.revision;
        let key = (collection, name.to_owned());
        let (kind, mut object) = match content {
            Some(content) => ("MODIFIED", content),
            None => ("DELETED", history.objects.remove(&key).expect("the object")),
        };
        object["metadata"]["name"] = name.into();
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        if collection != "namespaces" {
            object["metadata"]["namespace"] = "ns".into();
        }
        if kind == "MODIFIED" {
            history.objects.insert(key, object.clone());
        }
        let event = json!({ "type": kind, "object": object });
        history.events.push((revision, collection, event));
        drop(history);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Compacts the history, so that watches cannot resume.
    pub(super) fn compact(&self) {
        let mut history = lock(&self.history);
        history.compacted = history.revision;
        history.events.clear();
    }

    /// Numbers revisions from the start again, as after a restore.
    pub(super) fn restore(&self) {
        let mut history = lock(&self.history);
        (history.revision, history.compacted) = (1, 1);
        history.events.clear();
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().expect("not poisoned")
}

async fn serve_requests(stream: TcpStream, history: Arc<Mutex<History>>, changed: watch::Receiver<u64>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        let found = COLLECTIONS.into_iter().find(|name| path.contains(name));
        let collection = found.expect("a collection that is served");
        let served = if path.contains("watch=true") {
            serve_watch(&mut stream, collection, &path, &history, changed.clone()).await
        } else {
            let body = list(collection, &lock(&history));
            answer(&mut stream, 200, &body).await
        };
        if served.is_err() {
            return;
        }
    }
}

fn list(collection: &str, history: &History) -> Value {
    let of_it = history.objects.iter().filter(|((of, _), _)| *of == collection);
    let items: Vec<&Value> = of_it.map(|(_, object)| object).collect();
    json!({ "metadata": { "resourceVersion": history.revision.to_string() }, "items": items })
}

async fn answer(stream: &mut BufReader<TcpStream>, code: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await
}

async fn serve_watch(
    stream: &mut BufReader<TcpStream>,
    collection: &str,
    path: &str,
    history: &Mutex<History>,
    mut changed: watch::Receiver<u64>,
) -> std::io::Result<()> {
    let mut parameters = path.split(['?', '&']);
    let requested = parameters.find_map(|parameter| parameter.strip_prefix("resourceVersion="));
    let mut sent_revision: u64 = requested.expect("a revision").parse().expect("a number");
    let (compacted, revision) = {
        let history = lock(history);
        (history.compacted, history.revision)
    };
    if sent_revision < compacted {
        let gone = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
        return answer(stream, 410, &gone).await;
    }
    if sent_revision > revision {
        let message = format!("Too large resource version: {sent_revision}, current: {revision}");
        let ahead = json!({ "kind": "Status", "code": 504, "reason": "Timeout", "message": message });
        return answer(stream, 504, &ahead).await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    loop {
        let new_lines: Vec<(u64, String)> = lock(history)
            .events
            .iter()
            .filter(|(revision, of, _)| *revision > sent_revision && *of == collection)
            .map(|(revision, _, event)| (*revision, event.to_string() + "\n"))
            .collect();
        for (revision, line) in new_lines {
            sent_revision = revision;
            let chunk = format!("{:x}\r\n{line}\r\n", line.len());
            stream.write_all(chunk.as_bytes()).await?;
        }
        if changed.changed().await.is_err() {
            return Ok(());
        }
    }
}
