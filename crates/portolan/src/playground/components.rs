//! The components of the playground's cluster, each a process as in a real one.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Config};
use ipnet::IpNet;
use testbed::{Cluster, RUN_DIRECTORY, request_tcp};

use crate::commands::Failure;
use crate::commands::kubeconfig::file_name;
use crate::commands::pod_ranges;

const API_PORT: u16 = 6443;
/// Port of the DNS server on the control plane; the Service kube-dns leads to it.
pub const DNS_PORT: u16 = 10053;
/// Where the echo program outside answers: the endpoint that example 04 writes by hand.
const OUTSIDE_ECHO_PORT: u16 = 9376;
/// How long the API server may take to listen.
const API_PATIENCE: Duration = Duration::from_secs(30);
/// How long a component may take to end after SIGTERM.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a log that are shown when something went wrong.
const LOG_END_LINES: usize = 12;

/// The running components.
pub struct Components {
    directory: PathBuf,
    api_address: SocketAddr,
    running: Vec<Component>,
}

struct Component {
    name: String,
    process: Child,
}

impl Components {
    /// Starts what runs beside the nodes and waits until the API answers.
    pub fn start(cluster: &Cluster) -> Result<Self, Failure> {
        let directory = Path::new(RUN_DIRECTORY).join("portolan");
        fs::create_dir_all(&directory)?;
        let address = cluster.topology.control_plane.address;
        let api_address = SocketAddr::from((address.ipv4, API_PORT));
        let mut this = Self {
            directory,
            api_address,
            running: Vec::new(),
        };
        let service_cidrs = joined(&cluster.topology.service_cidrs.both());
        let control_plane = cluster.topology.control_plane.name.clone();
        let data = this.directory.join("api").display().to_string();
        let kubeconfig = this.kubeconfig().display().to_string();
        this.spawn(
            cluster,
            &control_plane,
            "apiserver",
            &[
                "apiserver",
                &format!("--listen={api_address}"),
                &format!("--data-dir={data}"),
                &format!("--service-cluster-ip-range={service_cidrs}"),
                &format!("--write-kubeconfig={kubeconfig}"),
            ],
        )?;
        this.wait_for_api(cluster)?;
        this.spawn(
            cluster,
            &control_plane,
            "controllers",
            &[
                "controllers",
                &this.kubeconfig_of("system:kube-controller-manager", "")?,
                "--leader-elect=false",
                "--metrics-bind-address=",
            ],
        )?;
        this.spawn(
            cluster,
            &control_plane,
            "balancer",
            &[
                "balancer",
                &this.kubeconfig_of("system:portolan-balancer", "")?,
                "--leader-elect=false",
                "--serve-edge-class=true",
            ],
        )?;
        let listen = format!(
            "--listen={},{}",
            SocketAddr::from((address.ipv4, DNS_PORT)),
            SocketAddr::from((address.ipv6, DNS_PORT))
        );
        this.spawn(
            cluster,
            &control_plane,
            "dns",
            &["dns", &this.kubeconfig_of("system:kube-dns", "")?, &listen],
        )?;
        let outside = cluster.topology.outside.name.clone();
        this.spawn(
            cluster,
            &outside,
            "outside-echo",
            &[
                "internal-echo",
                "--pod",
                "outside",
                "--port",
                &format!("{OUTSIDE_ECHO_PORT}/TCP"),
            ],
        )?;
        Ok(this)
    }

    /// Starts proxy, announcer with edge, and agent on every node.
    pub fn start_nodes(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        let of_proxy = self.kubeconfig_of("system:kube-proxy", "")?;
        let of_load_balancer = self.kubeconfig_of("system:portolan-load-balancer", "")?;
        let cluster_cidrs = joined(&cluster.topology.cluster_cidrs.both());
        for node in cluster.topology.nodes.clone() {
            let name = &node.member.name;
            self.spawn(
                cluster,
                name,
                &format!("proxy-{name}"),
                &[
                    "proxy",
                    &of_proxy,
                    &format!("--hostname-override={name}"),
                    &format!("--cluster-cidr={cluster_cidrs}"),
                ],
            )?;
            let logs = self.directory.join("access-logs");
            self.spawn(
                cluster,
                name,
                &format!("load-balancer-{name}"),
                &[
                    "balancer",
                    &of_load_balancer,
                    "--assign=false",
                    "--announce",
                    "--edge",
                    &format!("--edge-access-log-directory={}", logs.display()),
                    &format!("--node-name={name}"),
                    "--interfaces=eth0",
                ],
            )?;
            let of_agent = self.kubeconfig_of(&format!("system:node:{name}"), "system:nodes")?;
            let pki = self.directory.join("api/pki");
            apiserver::pki::node_serving(&pki, name, &node.member.address.both())?;
            let state = self.directory.join(format!("agent-{name}"));
            let pods = node.pods.both();
            self.reserve_pod_ranges(cluster, name, &pods)?;
            self.spawn(
                cluster,
                name,
                &format!("agent-{name}"),
                &[
                    "agent",
                    &of_agent,
                    &format!("--node-name={name}"),
                    &format!(
                        "--node-ip={},{}",
                        node.member.address.ipv4, node.member.address.ipv6
                    ),
                    &format!("--pod-cidr={}", joined(&pods)),
                    &format!("--node-labels=topology.kubernetes.io/zone={}", node.zone),
                    &format!("--state-dir={}", state.display()),
                    &format!(
                        "--tls-cert-file={}",
                        pki.join(format!("serving-{name}.crt")).display()
                    ),
                    &format!(
                        "--tls-private-key-file={}",
                        pki.join(format!("serving-{name}.key")).display()
                    ),
                    &format!("--client-ca-file={}", pki.join("ca.crt").display()),
                ],
            )?;
        }
        Ok(())
    }

    /// Gives a node the ranges of its Pods, from the control plane.
    fn reserve_pod_ranges(
        &self,
        cluster: &Cluster,
        node_name: &str,
        ranges: &[IpNet],
    ) -> Result<(), Failure> {
        let (kubeconfig, node_name, ranges) = (self.kubeconfig(), node_name.to_owned(), ranges.to_vec());
        cluster.control_plane()?.enter(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let client = Client::new(Config::from_kubeconfig(&kubeconfig)?)?;
                Ok(pod_ranges::reserve(&client, &node_name, &ranges).await?)
            })
        })?
    }

    /// Gives a component credentials of its own; the flag that tells it where they are.
    fn kubeconfig_of(&self, user: &str, group: &str) -> Result<String, Failure> {
        let name = file_name(user);
        let client = apiserver::pki::client(&self.directory.join("api/pki"), &name, user, group)?;
        let path = self.directory.join(format!("{name}.conf"));
        let server = apiserver::kubeconfig::server_url(self.api_address);
        apiserver::kubeconfig::write_for(&path, &server, user, &client)?;
        Ok(format!("--kubeconfig={}", path.display()))
    }

    /// The admin kubeconfig as the inside uses it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.conf")
    }

    /// Where the API listens inside.
    pub fn api_address(&self) -> SocketAddr {
        self.api_address
    }

    /// Writes the admin kubeconfig with the address at which the host reaches the API.
    pub fn write_host_kubeconfig(&self, host: SocketAddr) -> Result<(), Failure> {
        let text = fs::read_to_string(self.kubeconfig())?;
        let text = text.replace(&self.api_address.to_string(), &host.to_string());
        write_private(&self.host_kubeconfig(), &text)?;
        Ok(())
    }

    /// The kubeconfig for the host, by its path inside.
    pub fn host_kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Waits for Ctrl-C or SIGTERM; a component that ends by itself is an error.
    pub fn wait_for_end(&mut self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let end = crate::signal::asked_to_end();
            tokio::pin!(end);
            loop {
                tokio::select! {
                    () = &mut end => return Ok(()),
                    () = tokio::time::sleep(Duration::from_millis(500)) => self.all_alive()?,
                }
            }
        })
    }

    /// Ends all components, those of the nodes first.
    pub fn stop(&mut self) {
        for component in self.running.iter_mut().rev() {
            end(component);
        }
        self.running.clear();
    }

    /// Prints the last lines of every component's log that speaks of errors.
    pub fn print_log_ends(&self) {
        for component in &self.running {
            let text = fs::read_to_string(self.log(&component.name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            if !lines
                .iter()
                .any(|line| line.contains("ERROR") || line.contains("WARN"))
            {
                continue;
            }
            eprintln!("--- {}", component.name);
            for line in &lines[lines.len().saturating_sub(LOG_END_LINES)..] {
                eprintln!("{line}");
            }
        }
    }

    fn all_alive(&mut self) -> Result<(), Failure> {
        for component in &mut self.running {
            if let Some(status) = component.process.try_wait()? {
                self.print_log_ends();
                return Err(format!("a component ended by itself ({status})").into());
            }
        }
        Ok(())
    }

    fn wait_for_api(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        let deadline = Instant::now() + API_PATIENCE;
        let control_plane = cluster.control_plane()?;
        let to = self.api_address;
        loop {
            let connected = control_plane
                .enter(|| TcpStream::connect_timeout(&to, Duration::from_millis(200)).is_ok())?;
            if connected && self.kubeconfig().exists() {
                return Ok(());
            }
            self.all_alive()?;
            if Instant::now() > deadline {
                self.print_log_ends();
                return Err(format!("the API server does not listen on {to}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn spawn(
        &mut self,
        cluster: &Cluster,
        member: &str,
        name: &str,
        arguments: &[&str],
    ) -> Result<(), Failure> {
        let log = File::create(self.log(name))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the playground, which ends the components in their order.
            .process_group(0);
        let process = cluster.spawn(member, &mut command)?;
        self.running.push(Component {
            name: name.to_owned(),
            process,
        });
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }
}

/// What the echo program behind `to` answers to a member over HTTP: one line of JSON.
pub fn ask_echo(cluster: &Cluster, from: &str, to: SocketAddr) -> Result<String, Failure> {
    let request = format!("GET / HTTP/1.0\r\nHost: {to}\r\n\r\n");
    let answer = request_tcp(
        cluster.member(from)?,
        to,
        request.as_bytes(),
        Duration::from_secs(1),
    )?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("{to} answered {answer:?}"))?;
    Ok(body.trim().to_owned())
}

fn end(component: &mut Component) {
    let Some(pid) = i32::try_from(component.process.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return;
    };
    if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
        tracing::debug!(component = component.name, %error, "it ended before");
    }
    let deadline = Instant::now() + END_PATIENCE;
    loop {
        match component.process.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(_)) => return,
            Ok(None) | Err(_) => break,
        }
    }
    tracing::warn!(component = component.name, "it does not end and is killed");
    if let Err(error) = component.process.kill().and_then(|()| component.process.wait()) {
        tracing::warn!(component = component.name, %error, "it cannot be killed");
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

fn joined<T: ToString>(parts: &[T]) -> String {
    parts
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
