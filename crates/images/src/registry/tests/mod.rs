use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::download::{RATE_BYTES_MIN, RATE_PERIOD, Rate};
use super::*;
use crate::image::Image;
use crate::reference::Reference;
use crate::settings::StoreSettings;
use crate::store::ImageStore;
use crate::tests::test_images::{TestImage, gzip, zstd};

mod parsing;
mod test_registry;

use test_registry::{Fault, Protection, TestRegistry};

struct Host {
    directory: TempDir,
    store: ImageStore,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = StoreSettings {
            hosts_directory: Some(directory.path().join("certs.d")),
            stall_timeout: Duration::from_millis(300),
            pull_timeout: Duration::from_secs(60),
            ..StoreSettings::default()
        };
        let store = ImageStore::open(&directory.path().join("images"), settings).expect("a store");
        Self { directory, store }
    }

    async fn pull(&self, name: &str, credentials: &[RegistryCredential]) -> Result<Image, PullError> {
        let reference: Reference = name.parse().expect("a name");
        self.store.pull(&reference, credentials, &|_| {}).await
    }

    fn configure(&self, registry: &str, hosts: &str) {
        let directory = self.directory.path().join("certs.d").join(registry);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("hosts.toml"), hosts).expect("a file");
    }

    fn layer_count(&self) -> usize {
        let layers = self.directory.path().join("images/layers");
        fs::read_dir(layers).expect("names").count()
    }
}

fn check(image: &Image, contents: &[&str]) {
    for (number, content) in contents.iter().enumerate() {
        let path = image.layers[number].join(format!("file{number}"));
        assert_eq!(fs::read_to_string(path).expect("a file"), *content);
    }
}

fn credential(registry: &str, username: &str, password: &str) -> RegistryCredential {
    RegistryCredential {
        registry: registry.to_owned(),
        username: username.to_owned(),
        password: password.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_and_index_are_pulled() {
    for compress in [gzip, zstd] {
        let image = TestImage::new(&["one", "two", "three", "four"], compress);
        let registry = TestRegistry::start(&image, Protection::None, vec![]).await;
        let host = Host::new();
        let name = format!("{}/team/web:1", registry.authority);
        let pulled = host.pull(&name, &[]).await.expect("pulled");
        check(&pulled, &["one", "two", "three", "four"]);
        let requests = registry.request_count();
        let by_index = format!("{}/team/web:index", registry.authority);
        let by_index = host.pull(&by_index, &[]).await.expect("pulled");
        assert_eq!(by_index.manifest, pulled.digest);
        assert_ne!(by_index.digest, pulled.digest, "the digest of the index");
        assert_eq!(
            registry.request_count() - requests,
            3,
            "index, manifest, configuration, and no layer"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_and_basic_authentication_use_the_credentials() {
    let image = TestImage::new(&["one"], gzip);
    for protection in [Protection::Token, Protection::Basic, Protection::IdentityToken] {
        let registry = TestRegistry::start(&image, protection, vec![]).await;
        let name = format!("{}/team/web:1", registry.authority);
        let error = Host::new().pull(&name, &[]).await.expect_err("no credentials");
        assert!(matches!(error, PullError::Denied { .. }), "{error}");
        let user = if protection == Protection::IdentityToken {
            "<token>"
        } else {
            "user"
        };
        let wrong = credential(&registry.authority, user, "wrong");
        let error = Host::new()
            .pull(&name, std::slice::from_ref(&wrong))
            .await
            .expect_err("another password");
        assert!(matches!(error, PullError::Denied { .. }), "{error}");
        let elsewhere = credential("registry.example", user, "secret");
        assert!(
            Host::new().pull(&name, &[elsewhere]).await.is_err(),
            "credentials of another registry"
        );
        let right = credential(&registry.authority, user, "secret");
        let host = Host::new();
        let pulled = host.pull(&name, &[wrong, right]).await.expect("pulled");
        check(&pulled, &["one"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_serves_images_of_a_registry() {
    let image = TestImage::new(&["one"], gzip);
    let mirror = TestRegistry::start(&image, Protection::None, vec![]).await;
    let host = Host::new();
    let closed = TestRegistry::closed_authority().await;
    host.configure(
        "registry.example",
        &format!(
            "server = \"http://{closed}\"\n[host.\"http://{closed}\"]\n[host.\"http://{}\"]\n",
            mirror.authority
        ),
    );
    check(
        &host
            .pull("registry.example/team/web:1", &[])
            .await
            .expect("pulled"),
        &["one"],
    );
    assert!(
        mirror
            .requests()
            .iter()
            .all(|request| request.contains("ns=registry.example"))
    );
    // A mirror without "resolve" gets no requests for tags.
    let host = Host::new();
    host.configure(
        "_default",
        &format!(
            "server = \"http://{closed}\"\n[host.\"http://{}\"]\ncapabilities = [\"pull\"]\n",
            mirror.authority
        ),
    );
    let before = mirror.request_count();
    assert!(host.pull("registry.example/team/web:1", &[]).await.is_err());
    assert_eq!(mirror.request_count(), before);
    let by_digest = format!("registry.example/team/web@{}", Digest::sha256(&image.manifest));
    check(&host.pull(&by_digest, &[]).await.expect("pulled"), &["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_and_stalled_downloads_are_resumed() {
    let content = "0123456789".repeat(20_000);
    let image = TestImage::new(&[&content], |layer| layer.to_vec());
    for fault in [Fault::Cut(50_000), Fault::Stall(50_000)] {
        let registry = TestRegistry::start(&image, Protection::None, vec![fault.clone()]).await;
        let name = format!("{}/team/web:1", registry.authority);
        let host = Host::new();
        let pulled = host.pull(&name, &[]).await.expect("pulled");
        check(&pulled, &[&content]);
        let ranges = registry
            .requests()
            .into_iter()
            .filter(|request| request.contains("bytes="))
            .count();
        assert!(ranges >= 1, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_without_ranges_sends_the_layer_again() {
    let content = "0123456789".repeat(20_000);
    let image = TestImage::new(&[&content], |layer| layer.to_vec());
    let faults = vec![Fault::IgnoreRange, Fault::CutOnce(50_000)];
    let registry = TestRegistry::start(&image, Protection::None, faults).await;
    let name = format!("{}/team/web:1", registry.authority);
    check(&Host::new().pull(&name, &[]).await.expect("pulled"), &[&content]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_contents_are_refused_and_leave_no_layer() {
    let content = "0123456789".repeat(1_000);
    let image = TestImage::new(&[&content], |layer| layer.to_vec());
    for (fault, reason) in [
        (Fault::WrongLayer, "expected content with the digest"),
        (Fault::LongLayer, "more than"),
        (Fault::ShortLayer, "unexpected status 416"),
        (Fault::NoLayer, "not found"),
        (Fault::WrongConfig, "expected content with the digest"),
        (Fault::WrongManifest, "expected content with the digest"),
        (Fault::HugeManifest, "more than 4194304 bytes"),
        (Fault::StallManifest, "no data for"),
        (Fault::ServerError, "unexpected status 503"),
        (Fault::RedirectLoop, "redirects"),
    ] {
        let registry = TestRegistry::start(&image, Protection::None, vec![fault.clone()]).await;
        let host = Host::new();
        let name = format!("{}/team/web:1", registry.authority);
        let error = host.pull(&name, &[]).await.expect_err(reason).to_string();
        assert!(error.contains(reason), "{fault:?}: {error}");
        assert_eq!(host.layer_count(), 0, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_to_another_origin_without_tls_is_refused() {
    let image = TestImage::new(&["one"], gzip);
    let storage = TestRegistry::start(&image, Protection::None, vec![]).await;
    let fault = Fault::RedirectLayers(storage.authority.clone());
    let registry = TestRegistry::start(&image, Protection::Basic, vec![fault]).await;
    let name = format!("{}/team/web:1", registry.authority);
    let credentials = [credential(&registry.authority, "user", "secret")];
    let error = Host::new().pull(&name, &credentials).await;
    let error = error.expect_err("a redirect").to_string();
    assert!(error.contains("which has no TLS"), "{error}");
    assert_eq!(storage.request_count(), 0);
}

#[test]
fn download_needs_a_minimal_rate() {
    let begun = Instant::now();
    let mut rate = Rate::new(begun);
    assert!(rate.add(1, begun + RATE_PERIOD / 2));
    assert!(rate.add(RATE_BYTES_MIN, begun + RATE_PERIOD), "a full period");
    let is_sufficient = rate.add(RATE_BYTES_MIN - 1, begun + RATE_PERIOD * 2);
    assert!(!is_sufficient, "a slow period");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_part_of_an_earlier_pull_is_dropped() {
    let content = "0123456789".repeat(1_000);
    let image = TestImage::new(&[&content], |layer| layer.to_vec());
    let registry = TestRegistry::start(&image, Protection::None, vec![]).await;
    let name = format!("{}/team/web:1", registry.authority);
    let host = Host::new();
    let reference: Reference = name.parse().expect("a name");
    let layer = Digest::sha256(&image.compressed[0]);
    fs::write(host.store.download_path(&reference, &layer), "wrong").expect("a file");
    check(&host.pull(&name, &[]).await.expect("pulled"), &[&content]);
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_a_private_layer_give_no_access_to_it() {
    let image = TestImage::new(&["private"], gzip);
    let registry = TestRegistry::start(&image, Protection::Basic, vec![]).await;
    let credentials = [credential(&registry.authority, "user", "secret")];
    let host = Host::new();
    let name = format!("{}/team/web:1", registry.authority);
    host.pull(&name, &credentials).await.expect("pulled");
    // This registry has the digests of the layer, and not its content.
    let other = TestRegistry::start(&image, Protection::None, vec![Fault::NoLayer]).await;
    let by_digests = format!("{}/team/web:1", other.authority);
    let error = host.pull(&by_digests, &[]).await.expect_err("no access");
    assert!(error.to_string().contains("not found"), "{error}");
    // A client with access to the content in the registry does not download it again.
    let before = registry.request_count();
    let by_index = format!("{}/team/web:index", registry.authority);
    check(
        &host.pull(&by_index, &credentials).await.expect("pulled"),
        &["private"],
    );
    let layer = Digest::sha256(&image.compressed[0]).to_string();
    let mut requests = registry.requests().split_off(before);
    requests.retain(|request| request.contains(&layer));
    assert!(!requests.is_empty() && requests.iter().all(|request| request.contains("bytes=")));
    // A layer that everybody may download is for everybody.
    let public = TestRegistry::start(&image, Protection::None, vec![]).await;
    let public = format!("{}/team/web:1", public.authority);
    host.pull(&public, &[]).await.expect("pulled");
    check(&host.pull(&by_digests, &[]).await.expect("pulled"), &["private"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pull_has_a_deadline() {
    let image = TestImage::new(&["one"], gzip);
    let registry = TestRegistry::start(&image, Protection::None, vec![Fault::StallManifest]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let settings = StoreSettings {
        pull_timeout: Duration::from_millis(200),
        ..StoreSettings::default()
    };
    let store = ImageStore::open(directory.path(), settings).expect("a store");
    let reference: Reference = format!("{}/team/web:1", registry.authority)
        .parse()
        .expect("a name");
    let error = store
        .pull(&reference, &[], &|_| {})
        .await
        .expect_err("a deadline");
    assert!(matches!(error, PullError::Timeout(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pulls_of_one_image_share_the_downloads() {
    let image = TestImage::new(&["one", "two"], gzip);
    let registry = TestRegistry::start(&image, Protection::None, vec![]).await;
    let host = Arc::new(Host::new());
    let pulls = (0..5).map(|_| {
        let (host, name) = (Arc::clone(&host), format!("{}/team/web:1", registry.authority));
        tokio::spawn(async move { host.pull(&name, &[]).await.map(|image| image.id) })
    });
    for pull in pulls.collect::<Vec<_>>() {
        pull.await.expect("a task").expect("pulled");
    }
    let layers: Vec<String> = image
        .compressed
        .iter()
        .map(|layer| Digest::sha256(layer).to_string())
        .collect();
    let requests = registry.requests();
    let downloads = requests
        .iter()
        .filter(|request| layers.iter().any(|layer| request.contains(layer)))
        .count();
    assert_eq!(downloads, 2);
}
