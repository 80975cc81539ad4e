use super::*;

const TEXT: &str = "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9";

#[test]
fn groups_have_the_layout_of_windows() {
    let expected = Guid {
        data1: 0x0a1b_2c3d,
        data2: 0x4e5f,
        data3: 0x6071,
        data4: [0x82, 0x93, 0xa4, 0xb5, 0xc6, 0xd7, 0xe8, 0xf9],
    };
    for text in [TEXT.to_owned(), TEXT.to_lowercase(), format!("{{{TEXT}}}")] {
        assert_eq!(text.parse::<Guid>(), Ok(expected), "{text}");
    }
    assert_eq!(expected.to_string(), TEXT);
}

#[test]
fn rejects_other_texts() {
    for text in [
        "",
        "0A1B2C3D",
        "{0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9",
        "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9}",
        "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8FG",
        "+A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9",
        "0A1B2C3D4-E5F-6071-8293-A4B5C6D7E8F9",
        "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9-",
    ] {
        assert_eq!(text.parse::<Guid>(), Err(GuidError(text.to_owned())));
    }
}
