//! Encryption at rest with the binary under test: no plain text in files, key rotation, missing keys.

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
/// Data of a Secret as its JSON contains them; no file may contain them.
const PLAIN: &str = "aHVudGVyMi1pbi1wbGFpbi10ZXh0";
const FIRST: &str = "aescbc: {keys: [{name: first, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}";
const SECOND: &str = "aesgcm: {keys: [{name: second, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}";
const THIRD: &str =
    "secretbox: {keys: [{name: third, secret: ZmVkY2JhOTg3NjU0MzIxMDAxMjM0NTY3ODlhYmNkZWY=}]}";
const IDENTITY: &str = "identity: {}";

/// Directory of an API server, and its process while it runs.
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

    /// Writes an encryption configuration with providers for Secrets, and returns its path.
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
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("file permissions");
        path
    }

    /// Restarts the server with providers for Secrets; without a configuration if the list is empty.
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
            self.request(Method::GET, "/api/v1/namespaces/default", None)
                .is_ok()
        });
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            let status = process.stop();
            assert!(status.success(), "the server ended with {status}");
        }
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let config = Config::from_kubeconfig(&self.path("data/admin.conf")).expect("a kubeconfig");
            let client = Client::new(config).expect("a client");
            client.request(method, path, JSON, body).await
        })
    }

    fn create_secret(&self, name: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"password": PLAIN}});
        self.request(Method::POST, SECRETS, Some(&secret))
            .expect("a Secret");
    }

    fn secret(&self, name: &str) -> Result<Value, ClientError> {
        self.request(Method::GET, &format!("{SECRETS}/{name}"), None)
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

    /// Runs `portolan store rewrite` with providers for Secrets.
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

    /// Returns the files of the server that contain the data of the Secret.
    fn files_with_plain_text(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_with_plain_text(self.directory.path(), &mut found);
        found
    }
}

fn files_with_plain_text(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("a directory entry").path();
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

fn output_text(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

fn error_message(result: Result<Value, ClientError>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn key_rotation_leaves_no_plain_text_on_disk() {
    let mut server = Server::new(None);
    server.start(&[FIRST, IDENTITY]);
    server.create_secret("one");
    server.create_secret("two");
    let data = server.data();
    let snapshot = server.path("snapshot").display().to_string();
    let snapshot_output = server.store(&["snapshot", "--from", &data, "--to", &snapshot]);
    assert!(
        snapshot_output.status.success(),
        "{}",
        output_text(&snapshot_output)
    );
    assert!(
        output_text(&snapshot_output).contains("are encrypted, and were copied as they are"),
        "{}",
        output_text(&snapshot_output)
    );
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());
    let verified = server.store(&["verify", &data]);
    assert!(
        verified.status.success() && output_text(&verified).contains("were not checked"),
        "{}",
        output_text(&verified)
    );

    // The new key is first: it encrypts each write, also of an unchanged object. The old key still decrypts the others.
    server.start(&[SECOND, FIRST, IDENTITY]);
    server.assert_readable("one");
    let unchanged = server.secret("one").expect("a Secret");
    let path = format!("{SECRETS}/one");
    let written = server
        .request(Method::PUT, &path, Some(&unchanged))
        .expect("an update");
    let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_ne!(
        revision(&written),
        revision(&unchanged),
        "an update without changes encrypts with the new key"
    );
    let again = server
        .request(Method::PUT, &path, Some(&written))
        .expect("an update");
    assert_eq!(
        revision(&again),
        revision(&written),
        "a second update does not write"
    );
    let in_use = server.rewrite(&[SECOND, FIRST]);
    assert!(
        !in_use.status.success() && output_text(&in_use).contains("in use"),
        "{}",
        output_text(&in_use)
    );
    server.end();
    let rewritten = server.rewrite(&[SECOND, FIRST]);
    assert!(rewritten.status.success(), "{}", output_text(&rewritten));
    server.start(&[SECOND]);
    server.assert_readable("one");
    server.assert_readable("two");
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());

    // The snapshot is encrypted with the first key.
    server.end();
    let restored = server.store(&["restore", "--from", &snapshot, "--to", &data, "--overwrite"]);
    assert!(restored.status.success(), "{}", output_text(&restored));
    server.start(&[THIRD, FIRST, IDENTITY]);
    server.assert_readable("two");
}

#[test]
fn value_without_its_key_fails_and_other_resources_are_served() {
    let mut server = Server::new(None);
    server.start(&[FIRST, IDENTITY]);
    server.create_secret("one");
    for providers in [&[SECOND, IDENTITY][..], &[]] {
        server.start(providers);
        let error = error_message(server.secret("one"));
        assert!(
            error.contains("unable to transform key \"/secrets/default/one\""),
            "{error}"
        );
        let error = error_message(server.request(Method::GET, SECRETS, None));
        assert!(error.contains("unable to transform key"), "{error}");
        let error = error_message(server.request(Method::DELETE, &format!("{SECRETS}/one"), None));
        assert!(error.contains("unable to transform key"), "{error}");
        server
            .request(Method::GET, "/api/v1/configmaps", None)
            .expect("ConfigMaps");
        server
            .request(Method::GET, "/api/v1/services", None)
            .expect("Services");
    }
    server.end();
    let rewritten = server.rewrite(&[SECOND, IDENTITY]);
    assert!(!rewritten.status.success(), "{}", output_text(&rewritten));
    let reason = "identity transformer tried to read encrypted data";
    assert!(
        output_text(&rewritten).contains(reason),
        "{}",
        output_text(&rewritten)
    );
    server.start(&[FIRST, IDENTITY]);
    server.assert_readable("one");
}

#[test]
fn rewrite_encrypts_plain_values_without_remains() {
    let mut server = Server::new(None);
    server.start(&[]);
    server.create_secret("one");
    server.end();
    assert!(
        !server.files_with_plain_text().is_empty(),
        "without a configuration the store is not encrypted"
    );
    let rewritten = server.rewrite(&[THIRD, IDENTITY]);
    assert!(rewritten.status.success(), "{}", output_text(&rewritten));
    assert_eq!(server.files_with_plain_text(), Vec::<PathBuf>::new());
    server.start(&[THIRD]);
    server.assert_readable("one");
    // The identity provider decrypts all values.
    server.end();
    let rewritten = server.rewrite(&[IDENTITY, THIRD]);
    assert!(rewritten.status.success(), "{}", output_text(&rewritten));
    server.start(&[]);
    server.assert_readable("one");
}

#[test]
fn rewrite_seals_all_values_in_etcd_while_servers_run() {
    let Some((etcd, _directory)) = etcd("rewrite_seals_all_values_in_etcd_while_servers_run") else {
        return;
    };
    let mut server = Server::new(Some(etcd.url()));
    server.start(&[FIRST, IDENTITY]);
    for number in 0..20 {
        server.create_secret(&format!("secret-{number}"));
    }
    server.start(&[SECOND, FIRST]);
    let rewritten = server.rewrite(&[SECOND, FIRST]);
    assert!(rewritten.status.success(), "{}", output_text(&rewritten));
    assert!(
        !output_text(&rewritten).starts_with("0 values"),
        "{}",
        output_text(&rewritten)
    );
    server.assert_readable("secret-7");
    server.start(&[SECOND]);
    let secrets = server.request(Method::GET, SECRETS, None).expect("Secrets");
    let items = secrets["items"].as_array().expect("items");
    assert!(
        items
            .iter()
            .filter(|secret| secret["data"]["password"] == PLAIN)
            .count()
            == 20
    );
}

#[test]
fn unsupported_encryption_provider_prevents_the_start() {
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
        output_text(&output).contains("kms providers are not supported"),
        "{}",
        output_text(&output)
    );
}
