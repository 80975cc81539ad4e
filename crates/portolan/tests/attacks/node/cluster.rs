//! An API server with its controllers, and requests for certificates.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, Config, JSON};
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::access;
use crate::support::{Api, Component, portolan};

pub const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
pub const NODE_PART: &str = "portolan.dev/node-part";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// A bootstrap token, whose Secret [`Cluster::start`] makes.
const TOKEN: &str = "abcdef.0123456789abcdef";
/// How long a decision may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server whose controllers approve and sign.
pub struct Cluster {
    pub api: Api,
    pub administrator: Client,
    _controllers: Component,
}

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The certificate and its key, PEM.
    Signed(String, String),
    /// Denied, or not signed, and why.
    Refused(String),
    /// Nobody has decided.
    Pending,
}

/// A request for a certificate.
pub struct Wanted<'w> {
    pub name: &'w str,
    pub signer: &'w str,
    pub user: &'w str,
    pub group: &'w str,
    pub names: &'w [&'w str],
}

impl Cluster {
    pub async fn start() -> Self {
        let api = Api::start();
        let pki = api.directory.path().join("data/pki");
        let controllers = portolan(&[
            "controllers",
            &format!("--kubeconfig={}", api.kubeconfig().display()),
            "--leader-elect=false",
            "--metrics-bind-address=",
            &format!("--cluster-signing-cert-file={}", pki.join("ca.crt").display()),
            &format!("--cluster-signing-key-file={}", pki.join("ca.key").display()),
        ]);
        let administrator = access::administrator(&api);
        let token: api::bootstrap_token::Token = TOKEN.parse().expect("a token");
        let description = api::bootstrap_token::Description {
            groups: vec![api::bootstrap_token::JOINING_GROUP.to_owned()],
            ..Default::default()
        };
        let secret = api::bootstrap_token::secret(&token, &description);
        post(&administrator, "/api/v1/namespaces/kube-system/secrets", &secret)
            .await
            .expect("a token's Secret");
        Self {
            api,
            administrator,
            _controllers: controllers,
        }
    }

    /// Somebody with a join token.
    pub fn with_token(&self) -> Client {
        self.client(Config {
            token: Some(TOKEN.to_owned()),
            ..Config::default()
        })
    }

    /// Somebody with a certificate and its key, PEM.
    pub fn with_certificate(&self, certificate: &str, key: &str) -> Client {
        self.client(Config {
            client_certificate: Some((certificate.into(), key.into())),
            ..Config::default()
        })
    }

    fn client(&self, config: Config) -> Client {
        let authority = self.api.directory.path().join("data/pki/ca.crt");
        Client::new(Config {
            server: self.api.server.clone(),
            certificate_authority: std::fs::read(authority).expect("the authority"),
            ..config
        })
        .expect("a client")
    }

    /// Makes a Node that says that it has these addresses and is not ready.
    pub async fn make_node(&self, name: &str, addresses: &[&str]) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        post(&self.administrator, "/api/v1/nodes", &node)
            .await
            .expect("a Node");
        let addresses: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"type": "InternalIP", "address": address}))
            .collect();
        let status = json!({"status": {"addresses": addresses}});
        let path = format!("/api/v1/nodes/{name}/status");
        self.administrator
            .request(Method::PATCH, &path, client::MERGE_PATCH, Some(&status))
            .await
            .expect("a status");
    }

    /// Asks for a certificate, and waits for what becomes of it. A request that is for people to decide about stays
    /// pending: that it does is known once another one, made after it, has been signed.
    pub async fn ask(&self, asking: &Client, wanted: &Wanted<'_>) -> Outcome {
        let key = self.submit(asking, wanted).await;
        let probe = self
            .submit(
                &access::node(&self.api, "probe"),
                &Wanted {
                    name: &format!("probe-{}", wanted.name),
                    signer: NODE_CLIENT,
                    user: "system:node:probe",
                    group: "system:nodes",
                    names: &[],
                },
            )
            .await;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = self.outcome(wanted.name, &key).await;
            let probed = self.outcome(&format!("probe-{}", wanted.name), &probe).await;
            match (outcome, probed) {
                (Outcome::Pending, Outcome::Pending) => {
                    assert!(Instant::now() < deadline, "nobody decides");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (Outcome::Pending, _) if self.is_approved(wanted.name).await => {}
                (outcome, _) => return outcome,
            }
        }
    }

    async fn submit(&self, asking: &Client, wanted: &Wanted<'_>) -> String {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, wanted.user);
        if !wanted.group.is_empty() {
            params
                .distinguished_name
                .push(DnType::OrganizationName, wanted.group);
        }
        params.subject_alt_names = wanted
            .names
            .iter()
            .map(|name| match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().expect("a name")),
            })
            .collect();
        let request = params.serialize_request(&key).and_then(|request| request.pem());
        let usage = match wanted.signer {
            NODE_SERVING => "server auth",
            _ => "client auth",
        };
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": wanted.name},
            "spec": {"request": STANDARD.encode(request.expect("a request")), "signerName": wanted.signer,
                     "usages": ["digital signature", usage]}});
        post(asking, REQUESTS, &object)
            .await
            .expect("a request that is taken");
        key.serialize_pem()
    }

    async fn is_approved(&self, name: &str) -> bool {
        has_condition(&self.request(name).await, "Approved").is_some()
    }

    async fn request(&self, name: &str) -> Value {
        let path = format!("{REQUESTS}/{name}");
        self.administrator.get(&path).await.expect("the request")
    }

    async fn outcome(&self, name: &str, key: &str) -> Outcome {
        let request = self.request(name).await;
        if let Some(certificate) = request["status"]["certificate"].as_str() {
            let pem = STANDARD.decode(certificate).expect("base64");
            return Outcome::Signed(String::from_utf8(pem).expect("PEM"), key.to_owned());
        }
        let refused = has_condition(&request, "Denied").or_else(|| has_condition(&request, "Failed"));
        refused.map_or(Outcome::Pending, Outcome::Refused)
    }
}

fn has_condition(request: &Value, kind: &str) -> Option<String> {
    let conditions = request["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

/// Creates an object.
pub async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, ClientError> {
    client.request(Method::POST, path, JSON, Some(object)).await
}
