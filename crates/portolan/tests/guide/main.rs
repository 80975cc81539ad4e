//! The guides of `docs/standalone.md`, run as they stand there: each command in its place, and what the page says that
//! it prints. So the page cannot rot.

#[path = "../support/machine.rs"]
mod machine;
mod page;

use machine::Machine;
use page::{Block, blocks};
use testbed::{Cluster, Topology, in_namespace};

/// The page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/standalone.md");

#[test]
fn the_guide_on_one_machine() {
    in_namespace(|| follow("one-machine", 1));
}

#[test]
fn the_tutorial_on_connecting_applications() {
    in_namespace(|| follow("tutorial", 1));
}

/// Follows a guide of the page on machines of its own.
fn follow(guide: &str, machines: usize) {
    machine::need_programs();
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let blocks = blocks(&page, guide);
    assert!(!blocks.is_empty(), "the page has no guide {guide}");
    let cluster = Cluster::start(Topology::with_nodes(machines).expect("a topology")).expect("machines");
    let mut running = Machine::all(&cluster);
    for block in &blocks {
        let Some(machine) = running.get_mut(block.machine) else {
            panic!("line {}: there is no machine {}", block.line, block.machine + 1);
        };
        let printed = run(machine, block);
        if let Some(name) = &block.name {
            for machine in &mut running {
                machine.must(&format!("{name}='{printed}'"));
            }
        }
    }
    for machine in &mut running {
        machine.end();
    }
}

/// Runs a block, and compares what it prints, which it returns.
fn run(machine: &mut Machine, block: &Block) -> String {
    let printed = machine.must(&block.commands);
    if let Some(expected) = &block.prints {
        assert!(
            page::is_like(&printed, expected),
            "docs/standalone.md, line {}:\n{}\nis to print:\n{expected}\nand printed:\n{printed}\n{}",
            block.line,
            block.commands,
            machine.log_end()
        );
    }
    printed
}
