//! Encryption at rest with the real binary: no plain text in any file, keys that change, keys that are gone.

mod support;

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use client::{Client, ClientError, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use support::{Component, etcd, free_tcp_port, portolan, program, wait_for};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// What must not be in a file: a Secret's data as it is in its JSON.
const PLAIN: &str = "aHVudGVyMi1pbi1wbGFpbi10ZXh0";
const FIRST: &str = "aescbc: {keys: [{name: first, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}";
const SECOND: &str = "aesgcm: {keys: [{name: second, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}";
const THIRD: &str =
    "secretbox: {keys: [{name: third, secret: ZmVkY2JhOTg3NjU0MzIxMDAxMjM0NTY3ODlhYmNkZWY=}]}";
const IDENTITY: &str = "identity: {}";

/// An API server's directory, and the server while it runs.
struct Server {
    directory: tempfile::TempDir,
    address: SocketAddr,
    etcd_url: Option<String>,
    process: Option<Component>,
}

impl Server {
    fn new(etcd_url: Option<String>) -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            address: SocketAddr::from(([127, 0, 0, 1], free_tcp_port())),
            etcd_url,
            process: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a configuration with these providers of Secrets; its path.
    fn configuration(&self, providers: &[&str]) -> PathBuf {
        let providers: Vec<String> = providers
            .iter()
            .map(|provider| format!("  - {provider}\n"))
            .collect();
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n{}",
            providers.concat()
        );
        let path = self.path("encryption.yaml");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    }

    /// Starts it with these providers of Secrets; without a configuration if there are none.
    fn start(&mut self, providers: &[&str]) {
        self.end();
        let mut arguments = vec![
            "apiserver".to_owned(),
            format!("--listen={}", self.address),
            format!("--data-dir={}", self.path("data").display()),
        ];
        arguments.extend(self.etcd_url.iter().map(|url| format!("--etcd-servers={url}")));
        if !providers.is_empty() {
            let path = self.configuration(providers);
            arguments.push(format!("--encryption-provider-config={}", path.display()));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.process = Some(portolan(&arguments));
        wait_for("the API server", || TcpStream::connect(self.address).is_ok());
        wait_for("the administrator's kubeconfig", || {
            self.path("data/admin.conf").exists()
        });
        wait_for("the namespace default", || {
            self.ask(Method::GET, "/api/v1/namespaces/default", None).is_ok()
        });
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            assert!(process.stop().success());
        }
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let config = Config::from_kubeconfig(&self.path("data/admin.conf")).expect("a kubeconfig");
            let client = Client::new(config).expect("a client");
            client.request(method, path, JSON, body).await
        })
    }

    fn create_secret(&self, name: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"password": PLAIN}});
        self.ask(Method::POST, SECRETS, Some(&secret)).expect("a Secret");
    }

    fn secret(&self, name: &str) -> Result<Value, ClientError> {
        self.ask(Method::GET, &format!("{SECRETS}/{name}"), None)
    }

    fn assert_readable(&self, name: &str) {
        assert_eq!(self.secret(name).expect("a Secret")["data"]["password"], PLAIN);
    }

    fn store(&self, arguments: &[&str]) -> Output {
        let command = Command::new(program()).arg("store").args(arguments).output();
        command.expect("the binary under test")
    }

    fn data(&self) -> String {
        self.path("data").display().to_string()
    }

    /// Where `portolan store rewrite` finds the data.
    fn rewrite(&self, providers: &[&str]) -> Output {
        let place = match &self.etcd_url {
            Some(url) => format!("--etcd-servers={url}"),
            None => format!("--data-dir={}", self.data()),
        };
        let path = self.configuration(providers).display().to_string();
        self.store(&[
            "rewrite",
            &place,
            "--encryption-provider-config",
            &path,
            "--resource=secrets",
        ])
    }

    /// Names of the files below its directory that have the Secret's data in them.
    fn files_with_plain_text(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_with_plain_text(self.directory.path(), &mut found);
        found
    }
}

fn files_with_plain_text(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_with_plain_text(&path, found);
        } else if fs::read(&path)
            .expect("a file")
            .windows(PLAIN.len())
            .any(|window| window == PLAIN.as_bytes())
        {
            found.push(path);
        }
    }
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

fn message(refused: Result<Value, ClientError>) -> String {
    refused.expect_err("a refusal").to_string()
}

#[test]
fn no_plain_text_is_on_the_disk_and_keys_change() {
    let mut server = Server::new(None);
    server.start(&[FIRST, IDENTITY]);
    server.create_secret("one");
    server.create_secret("two");
    let data = server.data();
    let snapshot = server.path("snapshot").display().to_string();
    let taken = server.store(&["snapshot", "--from", &data, "--to", &snapshot]);
    assert!(taken.status.success(), "{}", said(&taken));
    assert!(
        said(&taken).contains("are encrypted, and were copied as they are"),
        "{}",
        said(&taken)
    );
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());
    let looked = server.store(&["verify", &data]);
    assert!(
        looked.status.success() && said(&looked).contains("were not checked"),
        "{}",
        said(&looked)
    );

    // A new key is first: what is written anew, even unchanged, is by it, and the rest is read with the old one.
    server.start(&[SECOND, FIRST, IDENTITY]);
    server.assert_readable("one");
    let unchanged = server.secret("one").expect("a Secret");
    let path = format!("{SECRETS}/one");
    let written = server
        .ask(Method::PUT, &path, Some(&unchanged))
        .expect("an update");
    let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_ne!(revision(&written), revision(&unchanged), "it is stored anew");
    let again = server.ask(Method::PUT, &path, Some(&written)).expect("an update");
    assert_eq!(revision(&again), revision(&written), "once");
    let busy = server.rewrite(&[SECOND, FIRST]);
    assert!(
        !busy.status.success() && said(&busy).contains("in use"),
        "{}",
        said(&busy)
    );
    server.end();
    let rewritten = server.rewrite(&[SECOND, FIRST]);
    assert!(rewritten.status.success(), "{}", said(&rewritten));
    server.start(&[SECOND]);
    server.assert_readable("one");
    server.assert_readable("two");
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());

    // From a snapshot by the first key, with that key.
    server.end();
    let restored = server.store(&["restore", "--from", &snapshot, "--to", &data, "--overwrite"]);
    assert!(restored.status.success(), "{}", said(&restored));
    server.start(&[THIRD, FIRST, IDENTITY]);
    server.assert_readable("two");
}

#[test]
fn a_value_that_no_key_opens_fails_and_the_rest_is_served() {
    let mut server = Server::new(None);
    server.start(&[FIRST, IDENTITY]);
    server.create_secret("one");
    for providers in [&[SECOND, IDENTITY][..], &[]] {
        server.start(providers);
        let refused = message(server.secret("one"));
        assert!(
            refused.contains("unable to transform key \"/secrets/default/one\""),
            "{refused}"
        );
        let refused = message(server.ask(Method::GET, SECRETS, None));
        assert!(refused.contains("unable to transform key"), "{refused}");
        let refused = message(server.ask(Method::DELETE, &format!("{SECRETS}/one"), None));
        assert!(refused.contains("unable to transform key"), "{refused}");
        server
            .ask(Method::GET, "/api/v1/configmaps", None)
            .expect("ConfigMaps");
        server
            .ask(Method::GET, "/api/v1/services", None)
            .expect("Services");
    }
    server.end();
    let rewritten = server.rewrite(&[SECOND, IDENTITY]);
    assert!(!rewritten.status.success(), "{}", said(&rewritten));
    let reason = "identity transformer tried to read encrypted data";
    assert!(said(&rewritten).contains(reason), "{}", said(&rewritten));
    server.start(&[FIRST, IDENTITY]);
    server.assert_readable("one");
}

#[test]
fn plain_values_are_encrypted_by_a_rewrite_that_leaves_no_trace() {
    let mut server = Server::new(None);
    server.start(&[]);
    server.create_secret("one");
    server.end();
    assert!(
        !server.files_with_plain_text().is_empty(),
        "the store is plain without a configuration"
    );
    let rewritten = server.rewrite(&[THIRD, IDENTITY]);
    assert!(rewritten.status.success(), "{}", said(&rewritten));
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());
    server.start(&[THIRD]);
    server.assert_readable("one");
    // And back.
    server.end();
    let rewritten = server.rewrite(&[IDENTITY, THIRD]);
    assert!(rewritten.status.success(), "{}", said(&rewritten));
    server.start(&[]);
    server.assert_readable("one");
}

#[test]
fn a_live_etcd_is_rewritten_while_servers_run() {
    let Some((etcd, _directory)) = etcd("a_live_etcd_is_rewritten_while_servers_run") else {
        return;
    };
    let mut server = Server::new(Some(etcd.url()));
    server.start(&[FIRST, IDENTITY]);
    for number in 0..20 {
        server.create_secret(&format!("secret-{number}"));
    }
    server.start(&[SECOND, FIRST]);
    let rewritten = server.rewrite(&[SECOND, FIRST]);
    assert!(rewritten.status.success(), "{}", said(&rewritten));
    assert!(!said(&rewritten).starts_with("0 values"), "{}", said(&rewritten));
    server.assert_readable("secret-7");
    server.start(&[SECOND]);
    let secrets = server.ask(Method::GET, SECRETS, None).expect("Secrets");
    let items = secrets["items"].as_array().expect("a list");
    assert!(
        items
            .iter()
            .filter(|secret| secret["data"]["password"] == PLAIN)
            .count()
            == 20
    );
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_at_the_start() {
    let server = Server::new(None);
    let path = server.configuration(&["kms: {name: plugin, endpoint: 'unix:///run/kms', apiVersion: v2}"]);
    let data = format!("--data-dir={}", server.data());
    let configuration = format!("--encryption-provider-config={}", path.display());
    let listen = format!("--listen={}", server.address);
    let mut command = Command::new(program());
    let output = command
        .args(["apiserver", &data, &listen, &configuration])
        .output();
    let output = output.expect("the binary under test");
    assert!(!output.status.success());
    assert!(
        said(&output).contains("kms providers are not supported"),
        "{}",
        said(&output)
    );
}
