//! API server with controllers, and certificate requests.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, Config, JSON};
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::access;
use crate::support::{Api, Component, portolan};

pub(super) const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const NODE_PART: &str = "portolan.dev/node-part";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Join token. [`Cluster::start`] creates its Secret.
const TOKEN: &str = "abcdef.0123456789abcdef";
/// Time for a decision on a busy host.
const DECISION_TIMEOUT: Duration = Duration::from_secs(60);

/// API server with controllers that approve and sign certificate requests.
pub(super) struct Cluster {
    pub api: Api,
    pub administrator: Client,
    _controllers: Component,
}

/// Outcome of a certificate request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Certificate and key in PEM.
    Signed(String, String),
    /// Denied or failed, with the message of the condition.
    Refused(String),
    /// Without a decision.
    Pending,
}

/// Beginning of a name that is a DNS name in the request, also if it has the form of an address.
pub(super) const DNS_NAME: &str = "dns:";

/// Contents of a certificate request.
pub(super) struct TestCertificateRequest<'w> {
    pub name: &'w str,
    pub signer: &'w str,
    pub user: &'w str,
    pub group: &'w str,
    pub names: &'w [&'w str],
}

impl Cluster {
    pub(super) async fn start() -> Self {
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
        let token: api::bootstrap_token::Token = TOKEN.parse().expect("a join token");
        let description = api::bootstrap_token::Description {
            groups: vec![api::bootstrap_token::JOINING_GROUP.to_owned()],
            ..Default::default()
        };
        let secret = api::bootstrap_token::secret(&token, &description);
        post(&administrator, "/api/v1/namespaces/kube-system/secrets", &secret)
            .await
            .expect("the Secret of the join token");
        Self {
            api,
            administrator,
            _controllers: controllers,
        }
    }

    /// Returns a client with the join token.
    pub(super) fn with_token(&self) -> Client {
        self.client(Config {
            token: Some(TOKEN.to_owned()),
            ..Config::default()
        })
    }

    /// Returns a client with a certificate and key in PEM.
    pub(super) fn with_certificate(&self, certificate: &str, key: &str) -> Client {
        self.client(Config {
            client_certificate: Some((certificate.into(), key.into())),
            ..Config::default()
        })
    }

    fn client(&self, config: Config) -> Client {
        let authority = self.api.directory.path().join("data/pki/ca.crt");
        Client::new(Config {
            server: self.api.server.clone(),
            certificate_authority: std::fs::read(authority).expect("the CA certificate"),
            ..config
        })
        .expect("a client")
    }

    /// Creates a Node with addresses that is not ready.
    pub(super) async fn create_node(&self, name: &str, addresses: &[&str]) {
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
            .expect("the status of the Node");
    }

    /// Creates a certificate request and waits for its outcome. The request counts as pending when a later
    /// request has been signed before it.
    pub(super) async fn request_certificate(
        &self,
        client: &Client,
        request: &TestCertificateRequest<'_>,
    ) -> Outcome {
        let key = self.submit(client, request).await;
        let probe = self
            .submit(
                &access::node(&self.api, "probe"),
                &TestCertificateRequest {
                    name: &format!("probe-{}", request.name),
                    signer: NODE_CLIENT,
                    user: "system:node:probe",
                    group: "system:nodes",
                    names: &[],
                },
            )
            .await;
        let deadline = Instant::now() + DECISION_TIMEOUT;
        loop {
            let outcome = self.outcome(request.name, &key).await;
            let probed = self.outcome(&format!("probe-{}", request.name), &probe).await;
            match (outcome, probed) {
                (Outcome::Pending, Outcome::Pending) => {
                    assert!(
                        Instant::now() < deadline,
                        "no decision within {DECISION_TIMEOUT:?}"
                    );
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (Outcome::Pending, _) if self.is_approved(request.name).await => {}
                (outcome, _) => return outcome,
            }
        }
    }

    async fn submit(&self, client: &Client, request: &TestCertificateRequest<'_>) -> String {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, request.user);
        if !request.group.is_empty() {
            params
                .distinguished_name
                .push(DnType::OrganizationName, request.group);
        }
        params.subject_alt_names = request
            .names
            .iter()
            .map(|name| match (name.parse(), name.strip_prefix(DNS_NAME)) {
                (Ok(address), _) => SanType::IpAddress(address),
                (Err(_), dns_name) => {
                    let dns_name = dns_name.unwrap_or(name);
                    SanType::DnsName(dns_name.try_into().expect("a DNS name"))
                }
            })
            .collect();
        let pem = params.serialize_request(&key).and_then(|request| request.pem());
        let usage = match request.signer {
            NODE_SERVING => "server auth",
            _ => "client auth",
        };
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": request.name},
            "spec": {"request": STANDARD.encode(pem.expect("a PEM request")), "signerName": request.signer,
                     "usages": ["digital signature", usage]}});
        post(client, REQUESTS, &object)
            .await
            .expect("a CertificateSigningRequest");
        key.serialize_pem()
    }

    async fn is_approved(&self, name: &str) -> bool {
        condition_message(&self.request(name).await, "Approved").is_some()
    }

    async fn request(&self, name: &str) -> Value {
        let path = format!("{REQUESTS}/{name}");
        self.administrator
            .get(&path)
            .await
            .expect("the CertificateSigningRequest")
    }

    async fn outcome(&self, name: &str, key: &str) -> Outcome {
        let request = self.request(name).await;
        if let Some(certificate) = request["status"]["certificate"].as_str() {
            let pem = STANDARD.decode(certificate).expect("base64");
            return Outcome::Signed(
                String::from_utf8(pem).expect("a certificate in PEM"),
                key.to_owned(),
            );
        }
        let refused = condition_message(&request, "Denied").or_else(|| condition_message(&request, "Failed"));
        refused.map_or(Outcome::Pending, Outcome::Refused)
    }
}

/// Returns the message of a condition, or `None` without the condition.
fn condition_message(request: &Value, kind: &str) -> Option<String> {
    let conditions = request["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

/// Creates an object.
pub(super) async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, ClientError> {
    client.request(Method::POST, path, JSON, Some(object)).await
}
