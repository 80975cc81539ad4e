//! Maps for events. Each map has a pin of its own, so a process can adopt the other maps of an earlier process without
//! events.

use std::os::fd::AsRawFd;
use std::path::Path;

use netlink::bpf::{BpfError, Map, MapShape};

use super::event_program::EventDescriptors;
use super::layout::{EventShapes, ONLY_KEY};

/// A map that was pinned, or that is to be pinned.
#[derive(Debug)]
struct EventMap {
    map: Map,
    shape: MapShape,
    is_pinned: bool,
}

impl EventMap {
    fn open(shape: MapShape, pins: Option<&Path>) -> Result<Self, BpfError> {
        let pinned = match pins {
            Some(pins) => Map::pinned(shape, &pins.join(shape.name))?,
            None => None,
        };
        let is_pinned = pinned.is_some();
        let map = match pinned {
            Some(map) => map,
            None => Map::create(shape)?,
        };
        Ok(Self {
            map,
            shape,
            is_pinned,
        })
    }
}

/// The maps for events.
#[derive(Debug)]
pub(super) struct EventMaps {
    events: EventMap,
    requests: EventMap,
    losses: EventMap,
}

impl EventMaps {
    /// Opens the pinned maps, and creates those that are missing.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the kernel has no rings, or no memory.
    pub(super) fn open(pins: Option<&Path>) -> Result<Self, BpfError> {
        let shapes = EventShapes::CURRENT;
        let losses = EventMap::open(shapes.losses, pins)?;
        if !losses.is_pinned {
            losses.map.update(&ONLY_KEY, &vec![0; losses.map.value_bytes()])?;
        }
        Ok(Self {
            events: EventMap::open(shapes.events, pins)?,
            requests: EventMap::open(shapes.requests, pins)?,
            losses,
        })
    }

    /// Returns the file descriptors for programs.
    pub(super) fn descriptors(&self) -> EventDescriptors {
        EventDescriptors {
            events: self.events.map.as_raw_fd(),
            requests: self.requests.map.as_raw_fd(),
            losses: self.losses.map.as_raw_fd(),
        }
    }

    /// Passes each map that is not pinned to `pin`, with its name.
    ///
    /// # Errors
    ///
    /// The error of `pin`. The maps before are pinned then.
    pub(super) fn pin<E>(&mut self, mut pin: impl FnMut(&Map, &str) -> Result<(), E>) -> Result<(), E> {
        for map in [&mut self.events, &mut self.requests, &mut self.losses] {
            if !map.is_pinned {
                pin(&map.map, map.shape.name)?;
                map.is_pinned = true;
            }
        }
        Ok(())
    }

    /// Returns the number of events for which the ring had no room.
    ///
    /// # Errors
    ///
    /// [`BpfError`] if the map cannot be read.
    pub(super) fn lost(&self) -> Result<u64, BpfError> {
        let mut lost = 0_u64;
        self.losses
            .map
            .read_sums(|_, sums| lost = lost.saturating_add(sums.iter().sum()))?;
        Ok(lost)
    }
}
