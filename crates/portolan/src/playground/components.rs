//! Components of the playground, each a process as in a real cluster.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Config};
use ipnet::IpNet;
use testbed::{Cluster, NodePlan, RUN_DIRECTORY, request_tcp};

use super::router;
use crate::cluster::identities::certificate_file_name;
use crate::cluster::pod_cidrs;
use crate::error::{CommandError, FileError};
use crate::{runtime, shutdown};

const API_PORT: u16 = 6443;
/// Port of the DNS server on the control plane, for the Service `kube-dns`.
pub(super) const DNS_PORT: u16 = 10053;
/// Port of the echo program outside, the manual endpoint of example 04.
const OUTSIDE_ECHO_PORT: u16 = 9376;
/// Time for the API server to listen.
const API_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a component to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines of a log that are printed after a failure.
const LOG_END_LINES: usize = 12;

/// Running components.
pub(super) struct Components {
    directory: PathBuf,
    api_address: SocketAddr,
    running: Vec<Component>,
    has_router: bool,
}

/// A running component.
struct Component {
    name: String,
    process: Child,
}

impl Components {
    /// Starts the components alongside the nodes, and waits until the API server listens.
    ///
    /// # Errors
    ///
    /// An error if a component does not start.
    pub(super) fn start(cluster: &Cluster) -> Result<Self, CommandError> {
        let directory = Path::new(RUN_DIRECTORY).join("portolan");
        fs::create_dir_all(&directory)?;
        let address = cluster.topology.control_plane.address;
        let mut this = Self {
            directory,
            api_address: SocketAddr::from((address.ipv4, API_PORT)),
            running: Vec::new(),
            has_router: router::is_installed(),
        };
        this.start_api_server(cluster)?;
        this.wait_for_api(cluster)?;
        this.start_control_plane(cluster)?;
        let echo_port = format!("{OUTSIDE_ECHO_PORT}/TCP");
        this.spawn(
            cluster,
            &cluster.topology.outside.name,
            "outside-echo",
            &["internal-echo", "--pod", "outside", "--port", &echo_port],
        )?;
        if this.has_router {
            let command = router::command(&cluster.topology, &this.directory)?;
            this.spawn_command(cluster, &cluster.topology.outside.name, "router", command)?;
        }
        Ok(this)
    }

    /// Returns true if a router runs outside.
    pub(super) fn has_router(&self) -> bool {
        self.has_router
    }

    fn start_api_server(&mut self, cluster: &Cluster) -> Result<(), CommandError> {
        let service_cidrs = join_with_commas(&cluster.topology.service_cidrs.both());
        let flags = [
            "apiserver",
            &format!("--listen={}", self.api_address),
            &format!("--data-dir={}", self.directory.join("api").display()),
            &format!("--service-cluster-ip-range={service_cidrs}"),
            &format!("--write-kubeconfig={}", self.kubeconfig().display()),
        ];
        self.spawn(cluster, &cluster.topology.control_plane.name, "apiserver", &flags)
    }

    /// Starts controllers, assigner and DNS server.
    fn start_control_plane(&mut self, cluster: &Cluster) -> Result<(), CommandError> {
        let member = &cluster.topology.control_plane;
        let flags = [
            "controllers",
            &self.kubeconfig_of("system:kube-controller-manager", "")?,
            "--leader-elect=false",
            "--metrics-bind-address=",
        ];
        self.spawn(cluster, &member.name, "controllers", &flags)?;
        let flags = [
            "balancer",
            &self.kubeconfig_of("system:portolan-balancer", "")?,
            "--leader-elect=false",
            "--serve-edge-class=true",
        ];
        self.spawn(cluster, &member.name, "balancer", &flags)?;
        let listen = format!(
            "--listen={},{}",
            SocketAddr::from((member.address.ipv4, DNS_PORT)),
            SocketAddr::from((member.address.ipv6, DNS_PORT))
        );
        let flags = ["dns", &self.kubeconfig_of("system:kube-dns", "")?, &listen];
        self.spawn(cluster, &member.name, "dns", &flags)
    }

    /// Starts proxy, announcer with edge, and agent on each node.
    ///
    /// # Errors
    ///
    /// An error if a component does not start.
    pub(super) fn start_nodes(&mut self, cluster: &Cluster) -> Result<(), CommandError> {
        for node in &cluster.topology.nodes {
            self.start_proxy(cluster, node)?;
            self.start_load_balancer(cluster, node)?;
            self.start_agent(cluster, node)?;
        }
        Ok(())
    }

    fn start_proxy(&mut self, cluster: &Cluster, node: &NodePlan) -> Result<(), CommandError> {
        let name = &node.member.name;
        let cluster_cidrs = join_with_commas(&cluster.topology.cluster_cidrs.both());
        let flags = [
            "proxy",
            &self.kubeconfig_of("system:kube-proxy", "")?,
            &format!("--hostname-override={name}"),
            &format!("--cluster-cidr={cluster_cidrs}"),
        ];
        self.spawn(cluster, name, &format!("proxy-{name}"), &flags)
    }

    fn start_load_balancer(&mut self, cluster: &Cluster, node: &NodePlan) -> Result<(), CommandError> {
        let name = &node.member.name;
        let logs = self.directory.join("access-logs");
        let flags = [
            "balancer",
            &self.kubeconfig_of("system:portolan-load-balancer", "")?,
            "--assign=false",
            "--announce",
            "--edge",
            &format!("--edge-access-log-directory={}", logs.display()),
            &format!("--node-name={name}"),
            "--interfaces=eth0",
            "--metallb-namespace=",
        ];
        let bgp: &[&str] = if self.has_router { &["--bgp"] } else { &[] };
        let flags = [&flags[..], bgp].concat();
        self.spawn(cluster, name, &format!("load-balancer-{name}"), &flags)
    }

    fn start_agent(&mut self, cluster: &Cluster, node: &NodePlan) -> Result<(), CommandError> {
        let (name, address) = (&node.member.name, node.member.address);
        let pki = self.directory.join("api/pki");
        apiserver::pki::node_serving(&pki, name, &address.both())?;
        let state = self.directory.join(format!("agent-{name}"));
        let pods = node.pods.both();
        self.reserve_pod_cidrs(cluster, name, &pods)?;
        let pki_file = |name: &str| pki.join(name).display().to_string();
        let flags = [
            "agent",
            &self.kubeconfig_of(&format!("system:node:{name}"), "system:nodes")?,
            &format!("--node-name={name}"),
            &format!("--node-ip={},{}", address.ipv4, address.ipv6),
            &format!("--pod-cidr={}", join_with_commas(&pods)),
            &format!("--node-labels=topology.kubernetes.io/zone={}", node.zone),
            &format!("--state-dir={}", state.display()),
            &format!("--tls-cert-file={}", pki_file(&format!("serving-{name}.crt"))),
            &format!(
                "--tls-private-key-file={}",
                pki_file(&format!("serving-{name}.key"))
            ),
            &format!("--client-ca-file={}", pki_file("ca.crt")),
        ];
        self.spawn(cluster, name, &format!("agent-{name}"), &flags)
    }

    /// Writes the Pod CIDRs of a node, from the control plane.
    fn reserve_pod_cidrs(
        &self,
        cluster: &Cluster,
        node_name: &str,
        cidrs: &[IpNet],
    ) -> Result<(), CommandError> {
        let (kubeconfig, node_name, cidrs) = (self.kubeconfig(), node_name.to_owned(), cidrs.to_vec());
        cluster.control_plane()?.enter(move || {
            runtime::current_thread()?.block_on(async {
                let client = Client::new(Config::from_kubeconfig(&kubeconfig)?)?;
                Ok(pod_cidrs::reserve(&client, &node_name, &cidrs).await?)
            })
        })?
    }

    /// Issues the credentials of a component, and returns the flag with their path.
    fn kubeconfig_of(&self, user: &str, group: &str) -> Result<String, CommandError> {
        let name = certificate_file_name(user);
        let client = apiserver::pki::client(&self.directory.join("api/pki"), &name, user, group)?;
        let path = self.directory.join(format!("{name}.conf"));
        let server = apiserver::kubeconfig::server_url(self.api_address);
        apiserver::kubeconfig::write_for(&path, &server, user, &client)?;
        Ok(format!("--kubeconfig={}", path.display()))
    }

    /// Returns the path of the administrator's kubeconfig for the network of the playground.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.conf")
    }

    /// Returns the listen address of the API server.
    pub(super) fn api_address(&self) -> SocketAddr {
        self.api_address
    }

    /// Writes the administrator's kubeconfig for the host, with an address of the host.
    ///
    /// # Errors
    ///
    /// An error if the file cannot be written.
    pub(super) fn write_host_kubeconfig(&self, host: SocketAddr) -> Result<(), CommandError> {
        let text = fs::read_to_string(self.kubeconfig())?;
        let text = text.replace(&self.api_address.to_string(), &host.to_string());
        let path = self.host_kubeconfig();
        trust::private_file::write(&path, text.as_bytes()).map_err(FileError::at(&path))?;
        Ok(())
    }

    /// Returns the path of the kubeconfig for the host, in the mount namespace of the playground.
    pub(super) fn host_kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Waits for SIGINT or SIGTERM.
    ///
    /// # Errors
    ///
    /// An error if a component exits before.
    pub(super) fn wait_for_signal(&mut self) -> Result<(), CommandError> {
        runtime::current_thread()?.block_on(async {
            let signal = shutdown::signal_received();
            tokio::pin!(signal);
            loop {
                tokio::select! {
                    () = &mut signal => return Ok(()),
                    () = tokio::time::sleep(Duration::from_millis(500)) => self.check_running()?,
                }
            }
        })
    }

    /// Stops all components, those of the nodes first.
    pub(super) fn stop(&mut self) {
        for component in self.running.iter_mut().rev() {
            stop(component);
        }
        self.running.clear();
    }

    /// Prints the last lines of each log with warnings or errors.
    pub(super) fn print_log_ends(&self) {
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

    fn check_running(&mut self) -> Result<(), CommandError> {
        for component in &mut self.running {
            if let Some(status) = component.process.try_wait()? {
                let message = format!("component {} exited ({status})", component.name);
                self.print_log_ends();
                return Err(message.into());
            }
        }
        Ok(())
    }

    fn wait_for_api(&mut self, cluster: &Cluster) -> Result<(), CommandError> {
        let deadline = Instant::now() + API_TIMEOUT;
        let control_plane = cluster.control_plane()?;
        let to = self.api_address;
        loop {
            let connected = control_plane
                .enter(|| TcpStream::connect_timeout(&to, Duration::from_millis(200)).is_ok())?;
            if connected && self.kubeconfig().exists() {
                return Ok(());
            }
            self.check_running()?;
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
    ) -> Result<(), CommandError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        self.spawn_command(cluster, member, name, command)
    }

    fn spawn_command(
        &mut self,
        cluster: &Cluster,
        member: &str,
        name: &str,
        mut command: Command,
    ) -> Result<(), CommandError> {
        let log = File::create(self.log(name))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // The terminal sends SIGINT to the process group. The playground stops the components in order.
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

/// Sends an HTTP request of a member to an echo program, and returns the response: one line of JSON.
///
/// # Errors
///
/// An error if there is no response within a second.
pub(super) fn request_echo(cluster: &Cluster, from: &str, to: SocketAddr) -> Result<String, CommandError> {
    let request = format!("GET / HTTP/1.0\r\nHost: {to}\r\n\r\n");
    let response = request_tcp(
        cluster.member(from)?,
        to,
        request.as_bytes(),
        Duration::from_secs(1),
    )?;
    let response = String::from_utf8_lossy(&response).into_owned();
    let (_, body) = response
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("{to} responded with {response:?}"))?;
    Ok(body.trim().to_owned())
}

/// Stops a component with SIGTERM, and with SIGKILL after a timeout.
fn stop(component: &mut Component) {
    let Some(pid) = i32::try_from(component.process.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return;
    };
    if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
        tracing::debug!(component = component.name, %error, "signal to component not sent");
    }
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        match component.process.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(_)) => return,
            Ok(None) | Err(_) => break,
        }
    }
    tracing::warn!(component = component.name, "component not exited; killing it");
    if let Err(error) = component.process.kill().and_then(|()| component.process.wait()) {
        tracing::warn!(component = component.name, %error, "component not killed");
    }
}

fn join_with_commas<T: ToString>(parts: &[T]) -> String {
    parts
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
