//! eBPF mode: the rules of nftables mode, and TCP endpoints that are chosen when a client of this node connects.
//!
//! A program runs in connect(2) of each process in a control group. It replaces the address of a frontend by that of an
//! endpoint, so the packets need no translation. Its maps contain only frontends at which all clients of this node have
//! the same verdict (`frontends`). The nftables rules serve everything else: UDP and SCTP, node ports, session
//! affinity, source ranges, packets from other hosts, and connections for which a map has no space.
//!
//! If eBPF is not usable, [`EbpfDataplane`] is nftables mode, and [`Dataplane::fault`] returns the reason.
//!
//! Programs and maps are pinned, so new connections get their endpoints while no proxy runs. The next process replaces the
//! programs in place.

mod client_connections;
mod client_namespaces;
mod clients;
mod control_group;
mod destruction;
mod event_maps;
mod event_program;
mod events;
mod frame;
mod frontends;
mod layout;
mod objects;
mod pins;
mod programs;
mod services;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use api::object::ObjectKey;
use netlink::bpf::{BpfError, FILE_SYSTEM, Hook, Instruction, Program};
use netlink::nftables::{ExternalChange, Monitor};
use plan::{Changes, Plan, Scheduler};

use crate::nftables::{self, NftablesDataplane};
use crate::{
    Applied, ClientSocket, ClientSocketError, ConnectCounts, ConnectionCount, Counts, Dataplane,
    DataplaneError, Destroyed,
};

use clients::Clients;
use destruction::Destruction;
use frontends::KernelFeatures;
use objects::{EbpfError, Objects};
use services::Services;

pub use client_connections::{ClientConnections, FrontendsOfConnections};
pub use control_group::ControlGroupError;
pub use events::{ConnectionEvent, ConnectionEvents, EventError};
pub use layout::Limits;
pub use pins::remove_pins;

/// Function that loads a program into the kernel.
pub type Load = fn(Hook, &[Instruction]) -> Result<Program, BpfError>;

/// Options of the data plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the nftables table.
    pub table: String,
    /// Control group whose processes are served; `None` for all processes of the host.
    pub control_group: Option<PathBuf>,
    /// False to serve only clients in the network namespace of this process.
    pub serves_pods: bool,
    /// Directory of the pins, directly below the mount point of a bpf file system.
    pub pins: PathBuf,
    /// Maximum numbers of elements.
    pub limits: Limits,
    /// Loads the programs.
    pub load: Load,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: nftables::Options::default().table,
            control_group: None,
            serves_pods: true,
            pins: default_pins(),
            limits: Limits::default(),
            load: Program::load,
        }
    }
}

/// Returns the default directory of the pins.
pub fn default_pins() -> PathBuf {
    Path::new(FILE_SYSTEM).join("portolan")
}

/// An nftables data plane with eBPF programs for local clients.
pub struct EbpfDataplane {
    rules: NftablesDataplane,
    options: Options,
    /// Objects in the kernel; `None` if eBPF is not usable.
    objects: Option<Objects>,
    services: Services,
    /// Destroys the sockets of clients; `None` if this process cannot.
    destruction: Option<Destruction>,
    /// True if the maps are the state of `services`.
    is_in_sync: bool,
    /// Reason why eBPF is not usable.
    fault: Option<String>,
}

impl fmt::Debug for EbpfDataplane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EbpfDataplane")
            .field("options", &self.options)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl EbpfDataplane {
    /// Connects to the kernel and loads the programs; changes nothing yet. Without eBPF, the data plane is that of
    /// nftables mode.
    ///
    /// # Errors
    ///
    /// [`DataplaneError`] if nftables is not usable.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let rules = NftablesDataplane::open(nftables::Options {
            table: options.table.clone(),
        })?;
        let mut dataplane = Self {
            rules,
            options,
            objects: None,
            services: Services::default(),
            destruction: None,
            is_in_sync: false,
            fault: None,
        };
        dataplane.open_objects();
        Ok(dataplane)
    }

    fn open_objects(&mut self) {
        match Objects::open(&self.options) {
            Ok(objects) => {
                let clients = Clients::new(objects.control_group_path(), self.options.serves_pods);
                self.destruction = clients
                    .probe()
                    .and_then(|()| Destruction::start(clients))
                    .inspect_err(|error| {
                        tracing::warn!(%error, "connections by eBPF without reset; nftables serves Services with drain-seconds");
                    })
                    .ok();
                self.services = Services::new(KernelFeatures {
                    can_refuse: objects.can_refuse(),
                    can_destroy: self.destruction.is_some(),
                });
                self.objects = Some(objects);
                self.is_in_sync = false;
                self.fault = None;
            }
            Err(error) => self.fall_back(&error),
        }
    }

    /// Ends eBPF: the rules of nftables serve all connections.
    fn fall_back(&mut self, error: &EbpfError) {
        tracing::warn!(%error, "eBPF not usable; nftables serves all connections");
        self.objects = None;
        self.destruction = None;
        self.is_in_sync = false;
        let mut fault = error.to_string();
        // Pins of a former process would keep its programs attached.
        if let Err(error) = remove_pins(&self.options.pins) {
            tracing::error!(%error, "pinned eBPF programs not removed; they may serve former endpoints");
            fault = format!("{fault}; former programs not removed: {error}");
        }
        self.fault = Some(fault);
    }

    /// Applies changed Services to the maps. Returns the number of changed elements.
    fn apply_to_maps(&mut self, plan: &Plan, changes: &Changes) -> usize {
        let Some(objects) = &mut self.objects else {
            return 0;
        };
        let written = if !self.is_in_sync || changes.needs_full_write {
            reconcile(objects, &mut self.services, plan)
        } else {
            let edit = self.services.change(plan, &changes.services);
            let written = objects.write(&edit);
            written.map(|()| edit.elements()).map_err(EbpfError::from)
        };
        match written {
            Ok(elements) => {
                self.is_in_sync = true;
                elements
            }
            Err(error) => {
                self.fall_back(&error);
                0
            }
        }
    }

    /// Returns accepted and refused connections by Service. Counts begin with the frontends of a Service port.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the maps cannot be read.
    pub fn connection_counts(&self) -> Result<HashMap<ObjectKey, ConnectionCount>, BpfError> {
        let mut counts: HashMap<ObjectKey, ConnectionCount> = HashMap::new();
        let Some(objects) = &self.objects else {
            return Ok(counts);
        };
        let ports = self.services.counters();
        for (number, count) in objects.counts()? {
            if let Some(port) = ports.get(&number) {
                let sum = counts.entry(port.service.clone()).or_default();
                sum.accepted += count.accepted;
                sum.refused += count.refused;
            }
        }
        Ok(counts)
    }

    /// Returns the number of lost events; `None` if none are reported.
    fn lost_events(&self) -> Option<u64> {
        let lost = self.objects.as_ref()?.lost_events();
        lost.inspect_err(|error| tracing::debug!(%error, "counter of lost events not read"))
            .ok()?
    }
}

/// Makes the maps equal to the plan, and attaches the programs if they are not. Returns the number of changed elements.
fn reconcile(objects: &mut Objects, services: &mut Services, plan: &Plan) -> Result<usize, EbpfError> {
    let edit = services.reconcile(plan, &objects.read()?);
    objects.write(&edit)?;
    if !objects.is_attached() {
        objects.attach()?;
        tracing::info!(
            frontends = services.frontends(),
            is_pinned = objects.is_pinned(),
            "eBPF programs attached"
        );
    }
    Ok(edit.elements())
}

impl Dataplane for EbpfDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut applied = self.rules.apply(plan, changes)?;
        applied.elements += self.apply_to_maps(plan, changes);
        Ok(applied)
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let repaired = self.rules.repair(plan)?;
        if self.objects.is_none() {
            self.open_objects();
        }
        let was_in_sync = self.is_in_sync;
        self.is_in_sync = false;
        let elements = self.apply_to_maps(plan, &Changes::default());
        Ok(repaired + if was_in_sync { elements } else { 0 })
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        self.rules.watch()
    }

    fn repair_external(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        self.rules.repair_external(plan, changes)
    }

    fn client_sockets(&self, each: &mut dyn FnMut(&ClientSocket)) -> Result<(), ClientSocketError> {
        match (&self.objects, &self.destruction) {
            (Some(objects), Some(_)) => Ok(objects.connections(each)?),
            _ => Ok(()),
        }
    }

    fn destroy_client_sockets(
        &mut self,
        is_selected: &mut dyn FnMut(&ClientSocket) -> bool,
        done: Destroyed,
    ) -> Result<(), ClientSocketError> {
        let Some(destruction) = &self.destruction else {
            return Ok(());
        };
        let mut selected = Vec::new();
        self.client_sockets(&mut |socket| {
            if is_selected(socket) {
                selected.push(*socket);
            }
        })?;
        if selected.is_empty() {
            return Ok(());
        }
        destruction.request(selected, done)
    }

    fn counts(&self) -> Counts {
        Counts {
            connect: Some(ConnectCounts {
                is_attached: self.objects.as_ref().is_some_and(Objects::is_attached),
                frontends: self
                    .objects
                    .as_ref()
                    .map_or(0, |_| self.services.frontends() as u64),
                destroys_sockets: self.destruction.is_some(),
                lost_events: self.lost_events(),
            }),
            ..self.rules.counts()
        }
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn connections_of_services(&self) -> HashMap<ObjectKey, ConnectionCount> {
        self.connection_counts()
            .inspect_err(|error| tracing::debug!(%error, "eBPF counters not read"))
            .unwrap_or_default()
    }

    fn supports_two_tier(&self) -> bool {
        self.rules.supports_two_tier()
    }

    fn answers_ping(&self) -> bool {
        self.rules.answers_ping()
    }

    fn supports(&self, scheduler: Scheduler) -> bool {
        self.rules.supports(scheduler)
    }
}
