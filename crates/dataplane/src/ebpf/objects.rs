//! Maps, programs and attachments of this mode in the kernel, and their pins in the bpf file system.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink::bpf::{Attachment, BpfError, Hook, Map, Program, namespace_cookie};

use super::Options;
use super::control_group::{ControlGroupError, open_control_group};
use super::event_maps::EventMaps;
use super::layout::{Shapes, client_socket, frontend_value, socket_address, socket_bytes};
use super::pins;
use super::programs::{MapDescriptors, Variant, program};
use super::services::{Edit, KernelState};
use crate::client_sockets::ClientSocket;
use crate::counts::ConnectionCount;

/// Reasons why connections are not balanced by eBPF. The nftables rules serve them then.
#[derive(Debug, thiserror::Error)]
pub(super) enum EbpfError {
    /// There is no usable control group. A retry helps after it was mounted.
    #[error(transparent)]
    ControlGroup(#[from] ControlGroupError),
    /// The kernel refuses an operation.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The network namespace of this process is unknown: Linux before 5.14. A retry does not help.
    #[error(
        "--ebpf-pods=false needs the number of this network namespace (SO_NETNS_COOKIE, Linux 5.14): {0}"
    )]
    Namespace(#[source] io::Error),
    /// This process is in a network namespace of its own, and the root of the control groups has the processes of the whole
    /// host. A retry does not help.
    #[error(
        "this process is in a network namespace other than that of the host, and must not serve the clients of the host; \
         name the control group of its own clients with --ebpf-cgroup"
    )]
    OtherNamespace,
    /// A former pin cannot be replaced. A retry helps after it was removed.
    #[error("cannot replace {path}: {source}")]
    Pin {
        /// Path of the pin.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

/// The maps.
#[derive(Debug)]
struct Maps {
    frontends: Map,
    endpoints: Map,
    connections: Map,
    counters: Map,
}

impl Maps {
    /// Opens the pinned maps, if all of them exist in their current shapes.
    fn pinned(shapes: &Shapes, pins: &Path) -> Result<Option<Self>, BpfError> {
        let open = |shape: netlink::bpf::MapShape| Map::pinned(shape, &pins.join(shape.name));
        let (Some(frontends), Some(endpoints), Some(connections), Some(counters)) = (
            open(shapes.frontends)?,
            open(shapes.endpoints)?,
            open(shapes.connections)?,
            open(shapes.counters)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Self {
            frontends,
            endpoints,
            connections,
            counters,
        }))
    }

    fn create(shapes: &Shapes) -> Result<Self, BpfError> {
        Ok(Self {
            frontends: Map::create(shapes.frontends)?,
            endpoints: Map::create(shapes.endpoints)?,
            connections: Map::create(shapes.connections)?,
            counters: Map::create(shapes.counters)?,
        })
    }

    fn all<'a>(&'a self, shapes: &Shapes) -> [(&'a Map, &'static str); 4] {
        [
            (&self.frontends, shapes.frontends.name),
            (&self.endpoints, shapes.endpoints.name),
            (&self.connections, shapes.connections.name),
            (&self.counters, shapes.counters.name),
        ]
    }

    fn descriptors(&self, events: Option<&EventMaps>) -> MapDescriptors {
        MapDescriptors {
            frontends: self.frontends.as_raw_fd(),
            endpoints: self.endpoints.as_raw_fd(),
            connections: self.connections.as_raw_fd(),
            counters: self.counters.as_raw_fd(),
            events: events.map(EventMaps::descriptors),
        }
    }
}

/// Objects of this mode in the kernel.
#[derive(Debug)]
pub(super) struct Objects {
    control_group: File,
    control_group_path: PathBuf,
    control_group_inode: u64,
    shapes: Shapes,
    maps: Maps,
    /// Maps for events; `None` if the programs report none.
    event_maps: Option<EventMaps>,
    /// True if the maps are not pinned.
    has_new_maps: bool,
    programs: Vec<Program>,
    attachments: Vec<(Hook, Attachment)>,
    /// Directory of the pins; `None` if there is no bpf file system.
    pins: Option<PathBuf>,
    can_refuse: bool,
}

impl Objects {
    /// Opens the pinned maps or creates new ones, and loads the programs. Nothing is attached yet.
    pub(super) fn open(options: &Options) -> Result<Self, EbpfError> {
        if options.serves_pods && options.control_group.is_none() && is_in_other_namespace() {
            return Err(EbpfError::OtherNamespace);
        }
        let (control_group, control_group_path) = open_control_group(options.control_group.as_deref())?;
        let control_group_inode = control_group
            .metadata()
            .map(|found| found.ino())
            .map_err(|source| ControlGroupError::Read { source })?;
        let only_namespace = if options.serves_pods {
            None
        } else {
            Some(namespace_cookie().map_err(EbpfError::Namespace)?)
        };
        let pins = pins::create_directory(&options.pins)
            .inspect_err(|error| {
                tracing::warn!(%error, path = %options.pins.display(), "eBPF objects not pinned; without this process, nftables serves");
            })
            .ok();
        let shapes = Shapes::new(options.limits);
        let pinned = match &pins {
            Some(pins) => Maps::pinned(&shapes, pins)?,
            None => None,
        };
        let has_new_maps = pinned.is_none();
        let maps = match pinned {
            Some(maps) => maps,
            None => Maps::create(&shapes)?,
        };
        let event_maps = EventMaps::open(pins.as_deref())
            .inspect_err(|error| tracing::warn!(%error, "connections by eBPF not reported"))
            .ok();
        let (programs, can_refuse, event_maps) = load_best(options, &maps, only_namespace, event_maps)?;
        Ok(Self {
            control_group,
            control_group_path,
            control_group_inode,
            shapes,
            maps,
            event_maps,
            has_new_maps,
            programs,
            attachments: Vec::new(),
            pins,
            can_refuse,
        })
    }

    /// Returns true if the kernel can refuse connections with an error of its own.
    pub(super) fn can_refuse(&self) -> bool {
        self.can_refuse
    }

    /// Returns the path of the control group with the clients.
    pub(super) fn control_group_path(&self) -> &Path {
        &self.control_group_path
    }

    /// Passes each connected socket to `each`. Connections that begin meanwhile may be missing.
    pub(super) fn connections(&self, mut each: impl FnMut(&ClientSocket)) -> Result<(), BpfError> {
        self.maps.connections.read(|cookie, value| {
            if let Some(socket) = client_socket(cookie, value) {
                each(&socket);
            }
        })
    }

    /// Returns true if the objects outlive this process.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins.is_some()
    }

    /// Reads the state of the maps.
    pub(super) fn read(&self) -> Result<KernelState, BpfError> {
        let mut state = KernelState::default();
        self.maps.frontends.read(|key, value| {
            if let (Some(at), Some(value)) = (socket_address(key), frontend_value(value)) {
                state.frontends.insert(at, value);
            }
        })?;
        self.maps.endpoints.read(|key, value| {
            if let (Ok(key), Some(at)) = (key.try_into(), socket_address(value)) {
                state.endpoints.insert(key, at);
            }
        })?;
        self.maps.counters.read(|key, _| {
            state.counters.extend(key.try_into().map(u32::from_ne_bytes));
        })?;
        Ok(state)
    }

    /// Returns the counters by number.
    pub(super) fn counts(&self) -> Result<Vec<(u32, ConnectionCount)>, BpfError> {
        let mut counts = Vec::new();
        self.maps.counters.read_sums(|key, sums| {
            if let (Ok(key), [accepted, refused]) = (key.try_into(), sums) {
                let count = ConnectionCount {
                    accepted: *accepted,
                    refused: *refused,
                };
                counts.push((u32::from_ne_bytes(key), count));
            }
        })?;
        Ok(counts)
    }

    /// Returns the number of lost events; `None` if the programs report none.
    pub(super) fn lost_events(&self) -> Result<Option<u64>, BpfError> {
        self.event_maps.as_ref().map(EventMaps::lost).transpose()
    }

    /// Writes changes in their order.
    pub(super) fn write(&self, edit: &Edit) -> Result<(), BpfError> {
        let number_bytes =
            |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_ne_bytes()).collect() };
        let zeros = vec![0; edit.added_counters.len() * self.maps.counters.value_bytes()];
        self.maps
            .counters
            .update(&number_bytes(&edit.added_counters), &zeros)?;
        let (keys, values) = edit.endpoint_bytes();
        self.maps.endpoints.update(&keys, &values)?;
        let (keys, values) = edit.frontend_bytes();
        self.maps.frontends.update(&keys, &values)?;
        let gone: Vec<u8> = edit
            .deleted_frontends
            .iter()
            .flat_map(|at| socket_bytes(*at))
            .collect();
        self.maps.frontends.delete(&gone)?;
        self.maps.endpoints.delete(&edit.deleted_endpoints.concat())?;
        self.maps.counters.delete(&number_bytes(&edit.deleted_counters))
    }

    /// Attaches the programs, or replaces those of a former process in place.
    pub(super) fn attach(&mut self) -> Result<(), EbpfError> {
        if let Some(pins) = self.pins.as_ref().filter(|_| self.has_new_maps) {
            for (map, name) in self.maps.all(&self.shapes) {
                pin_map(map, &pins.join(name))?;
            }
            self.has_new_maps = false;
        }
        if let (Some(pins), Some(events)) = (&self.pins, &mut self.event_maps) {
            events.pin(|map, name| pin_map(map, &pins.join(name)))?;
        }
        self.attachments.clear();
        for program in &self.programs {
            let hook = program.hook();
            let attachment = match &self.pins {
                Some(pins) => self.attach_pinned(program, &pins.join(hook.name()))?,
                None => Attachment::create(program, self.control_group.as_fd())?,
            };
            self.attachments.push((hook, attachment));
        }
        if let Some(pins) = &self.pins {
            pins::remove_other_versions(pins);
        }
        Ok(())
    }

    fn attach_pinned(&self, program: &Program, path: &Path) -> Result<Attachment, EbpfError> {
        if let Some(former) = Attachment::pinned(path)?
            && former.is_at(program.hook(), self.control_group_inode)?
        {
            former.replace(program)?;
            return Ok(former);
        }
        // The new attachment precedes the end of one to another control group.
        let attachment = Attachment::create(program, self.control_group.as_fd())?;
        remove_pin(path)?;
        attachment.pin(path)?;
        Ok(attachment)
    }

    /// Returns true if all programs are attached.
    pub(super) fn is_attached(&self) -> bool {
        let is_at =
            |(hook, attachment): &(Hook, Attachment)| attachment.is_at(*hook, self.control_group_inode);
        self.attachments.len() == Hook::ALL.len()
            && self
                .attachments
                .iter()
                .all(|attached| is_at(attached).unwrap_or(false))
    }
}

/// Loads the programs in the first variant that the kernel accepts. Returns them with their features.
fn load_best(
    options: &Options,
    maps: &Maps,
    only_namespace: Option<u64>,
    event_maps: Option<EventMaps>,
) -> Result<(Vec<Program>, bool, Option<EventMaps>), BpfError> {
    let load = |can_refuse, events: Option<&EventMaps>| {
        let variant = Variant {
            only_namespace,
            can_refuse,
        };
        load_all(options, maps.descriptors(events), variant)
    };
    // Linux before 5.18 has no `bpf_set_retval`.
    if let Some(events) = event_maps {
        for can_refuse in [true, false] {
            match load(can_refuse, Some(&events)) {
                Err(error @ BpfError::Rejected { .. }) => {
                    tracing::debug!(%error, can_refuse, "eBPF programs that report connections rejected");
                }
                programs => return Ok((programs?, can_refuse, Some(events))),
            }
        }
        tracing::warn!("connections by eBPF not reported: the kernel rejects the programs that do");
    }
    match load(true, None) {
        Err(BpfError::Rejected { .. }) => Ok((load(false, None)?, false, None)),
        programs => Ok((programs?, true, None)),
    }
}

fn load_all(options: &Options, maps: MapDescriptors, variant: Variant) -> Result<Vec<Program>, BpfError> {
    let programs = Hook::ALL.into_iter().map(|hook| {
        let instructions = program(hook, maps, variant)?;
        (options.load)(hook, &instructions)
    });
    programs.collect()
}

/// Returns true if the first process is known to be in another network namespace.
fn is_in_other_namespace() -> bool {
    let inode = |path| std::fs::metadata(path).map(|found| found.ino());
    match (inode("/proc/thread-self/ns/net"), inode("/proc/1/ns/net")) {
        (Ok(own), Ok(first)) => own != first,
        _ => false,
    }
}

/// Pins a map in place of a former one.
fn pin_map(map: &Map, path: &Path) -> Result<(), EbpfError> {
    remove_pin(path)?;
    Ok(map.pin(path)?)
}

fn remove_pin(path: &Path) -> Result<(), EbpfError> {
    pins::remove_pin(path).map_err(|source| EbpfError::Pin {
        path: path.to_owned(),
        source,
    })
}
