use std::os::fd::AsRawFd;

use netlink::bpf::{BpfError, Map, Program};

use super::*;
use crate::ebpf::event_maps::EventMaps;
use crate::ebpf::layout::{Limits, Shapes};

/// The verifier of this kernel accepts every program in every variant.
#[test]
fn verifier_accepts_programs() {
    testbed::in_namespace(|| {
        let shapes = Shapes::new(Limits::default());
        let create = |shape| match Map::create(shape) {
            Ok(map) => map,
            Err(error @ (BpfError::NotPermitted { .. } | BpfError::Unsupported { .. })) => {
                testbed::skip_inside(&error.to_string())
            }
            Err(error) => panic!("{error}"),
        };
        let maps = [
            create(shapes.frontends),
            create(shapes.endpoints),
            create(shapes.connections),
            create(shapes.counters),
        ];
        let descriptors = MapDescriptors {
            frontends: maps[0].as_raw_fd(),
            endpoints: maps[1].as_raw_fd(),
            connections: maps[2].as_raw_fd(),
            counters: maps[3].as_raw_fd(),
            events: None,
        };
        let event_maps = EventMaps::open(None).unwrap();
        let reporting = MapDescriptors {
            events: Some(event_maps.descriptors()),
            ..descriptors
        };
        for hook in Hook::ALL {
            for only_namespace in [None, Some(1)] {
                let variant = Variant {
                    only_namespace,
                    can_refuse: false,
                };
                for maps in [descriptors, reporting] {
                    let instructions = program(hook, maps, variant).unwrap();
                    Program::load(hook, &instructions).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
        // A program without its last instruction has no end.
        let refusing = Variant {
            only_namespace: None,
            can_refuse: true,
        };
        let mut broken = program(Hook::Connect4, descriptors, refusing).unwrap();
        broken.pop();
        let error = Program::load(Hook::Connect4, &broken).unwrap_err();
        assert!(
            matches!(&error, BpfError::Rejected { log, .. } if !log.is_empty()),
            "{error}"
        );
    });
}
