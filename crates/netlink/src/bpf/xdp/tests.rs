use super::*;
use crate::bpf::{Assembler, Condition, Helper, R0, R1, R2, R6, R7, R9, Width};
use crate::route::{Connection, LinkChange, LinkName, NetworkNamespace};

/// An Ethernet frame with the smallest size.
const FRAME: [u8; 60] = [7; 60];

/// Drops the frame if its first byte is 7, and passes other ones.
fn first_byte_decides() -> Assembler {
    let mut program = Assembler::new();
    let pass = program.label();
    program.load(Width::Word, R7, R1, 0);
    program.load(Width::Word, R9, R1, 4);
    program.copy(R2, R7);
    program.add(R2, 1);
    program.jump_if_register(Condition::Greater, R2, R9, pass);
    program.load(Width::Byte, R1, R7, 0);
    program.jump_if(Condition::NotEqual, R1, 7, pass);
    program.set(R0, XdpAction::Drop as i32);
    program.exit();
    program.bind(pass);
    program.set(R0, XdpAction::Pass as i32);
    program.exit();
    program
}

/// Loads a program; ends the test as skipped where the kernel refuses all of them.
fn load(program: Assembler) -> XdpProgram {
    match XdpProgram::load("test", &program.finish().unwrap()) {
        Ok(program) => program,
        Err(error @ (BpfError::NotPermitted { .. } | BpfError::Unsupported { .. })) => {
            testbed::skip_inside(&error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn program_decides_by_the_bytes_of_a_frame() {
    testbed::in_namespace(|| {
        let program = load(first_byte_decides());
        let tested = program.test(&FRAME, 1).unwrap();
        assert_eq!(
            (tested.result, &tested.frame[..]),
            (XdpAction::Drop as u32, &FRAME[..])
        );
        let tested = program.test(&[0; 60], 1).unwrap();
        assert_eq!(tested.result, XdpAction::Pass as u32);
    });
}

#[test]
fn program_adds_bytes_before_a_frame() {
    testbed::in_namespace(|| {
        let mut program = Assembler::new();
        program.copy(R6, R1);
        program.set(R2, -4);
        program.call(Helper::AdjustHead);
        program.copy(R1, R6);
        program.set(R0, XdpAction::Transmit as i32);
        program.exit();
        let tested = load(program).test(&FRAME, 1).unwrap();
        assert_eq!(tested.result, XdpAction::Transmit as u32);
        assert_eq!(tested.frame.len(), FRAME.len() + 4);
        assert_eq!(tested.frame[4..], FRAME);
    });
}

#[test]
fn program_without_a_check_of_the_size_is_rejected() {
    testbed::in_namespace(|| {
        load(first_byte_decides());
        let mut program = Assembler::new();
        program.load(Width::Word, R7, R1, 0);
        program.load(Width::Byte, R0, R7, 0);
        program.exit();
        let error = XdpProgram::load("test", &program.finish().unwrap()).unwrap_err();
        let BpfError::Rejected { program, log, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(program, "test");
        assert!(log.contains("invalid access to packet"), "{log}");
    });
}

#[test]
fn interface_runs_one_program_until_its_attachment_ends() {
    testbed::in_namespace(|| {
        let program = load(first_byte_decides());
        let other = NetworkNamespace::create().unwrap();
        let (near, far): (LinkName, LinkName) = ("near".parse().unwrap(), "far".parse().unwrap());
        let mut connection = Connection::open().unwrap();
        connection.add_veth(&near, &far, Some(other.as_fd())).unwrap();
        let link = connection.link_index(&near).unwrap();
        connection.change_link(link, &LinkChange::up()).unwrap();
        let attachment = match program.attach(link) {
            Ok(attachment) => attachment,
            Err(error @ BpfError::Unsupported { .. }) => testbed::skip_inside(&error.to_string()),
            Err(error) => panic!("{error}"),
        };
        let error = program.attach(link).unwrap_err();
        assert!(error.to_string().contains("busy"), "{error}");
        drop(attachment);
        program.attach(link).unwrap();
    });
}
