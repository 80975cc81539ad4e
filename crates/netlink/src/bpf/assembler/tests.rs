use super::*;

fn bytes(program: Assembler) -> Vec<[u8; 8]> {
    let instructions = program.finish().unwrap();
    instructions.into_iter().map(Instruction::to_bytes).collect()
}

/// Encodings of RFC 9669, as llvm-objdump prints them on a little-endian host.
#[test]
#[cfg(target_endian = "little")]
fn instructions_have_the_encoding_of_the_kernel() {
    let mut program = Assembler::new();
    program.load(Width::Word, R1, R6, 24);
    program.store(Width::Half, R10, -8, R1);
    program.store_value(Width::Double, R10, -16, -1);
    program.copy(R6, R1);
    program.set_wide(R2, 0x1122_3344_5566_7788);
    program.set_map_descriptor(R1, 5);
    program.modulo(R0, R8);
    program.call(Helper::Random);
    program.exit();
    assert_eq!(
        bytes(program),
        [
            [0x61, 0x61, 24, 0, 0, 0, 0, 0],
            [0x6b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x7a, 0x0a, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff],
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0x18, 0x02, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x18, 0x11, 0, 0, 5, 0, 0, 0],
            [0; 8],
            [0x9c, 0x80, 0, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 7, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ]
    );
}

/// Encodings of RFC 9669, as llvm-objdump prints them on a little-endian host.
#[test]
#[cfg(target_endian = "little")]
fn operations_of_words_have_the_encoding_of_the_kernel() {
    let mut program = Assembler::new();
    program.load(Width::Byte, R1, R7, 14);
    program.add_register(R1, R2);
    program.multiply(R3, 1_021);
    program.word(WordOperation::Subtract, R1, R3);
    program.word(WordOperation::ExclusiveOr, R1, R4);
    program.rotate(R4, R3, 4, R5);
    program.half_to_network(R1);
    program.call(Helper::AdjustHead);
    assert_eq!(
        bytes(program),
        [
            [0x71, 0x71, 14, 0, 0, 0, 0, 0],
            [0x0f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x27, 0x03, 0, 0, 0xfd, 0x03, 0, 0],
            [0x1c, 0x31, 0, 0, 0, 0, 0, 0],
            [0xac, 0x41, 0, 0, 0, 0, 0, 0],
            [0xbc, 0x34, 0, 0, 0, 0, 0, 0],
            [0xbc, 0x35, 0, 0, 0, 0, 0, 0],
            [0x64, 0x04, 0, 0, 4, 0, 0, 0],
            [0x74, 0x05, 0, 0, 28, 0, 0, 0],
            [0x4c, 0x54, 0, 0, 0, 0, 0, 0],
            [0xdc, 0x01, 0, 0, 16, 0, 0, 0],
            [0x85, 0, 0, 0, 44, 0, 0, 0],
        ]
    );
}

#[test]
fn jump_skips_to_its_label() {
    let mut program = Assembler::new();
    let end = program.label();
    program.jump_if(Condition::NotEqual, R1, 6, end);
    program.set(R0, 0);
    program.bind(end);
    program.exit();
    let program = program.finish().unwrap();
    assert_eq!(program[0].offset, 1);
    assert_eq!(program[0].code, 0x55);
}

#[test]
fn greater_compares_without_sign() {
    let mut program = Assembler::new();
    let end = program.label();
    program.jump_if_register(Condition::Greater, R0, R7, end);
    program.bind(end);
    program.exit();
    assert_eq!(program.finish().unwrap()[0].code, 0x2d);
}

#[test]
fn rejects_label_without_place() {
    let mut program = Assembler::new();
    let label = program.label();
    program.jump(label);
    assert_eq!(program.finish(), Err(AssemblyError::Unbound(0)));
}

#[test]
fn rejects_loops_in_programs() {
    let mut program = Assembler::new();
    let begin = program.label();
    program.bind(begin);
    program.jump(begin);
    assert_eq!(program.finish(), Err(AssemblyError::Jump(0)));
}
