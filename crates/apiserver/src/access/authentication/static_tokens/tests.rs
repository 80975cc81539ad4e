use super::*;

fn parse(text: &str) -> Result<StaticTokens, TokenFileError> {
    StaticTokens::parse(text, Path::new("tokens.csv"))
}

#[test]
fn reads_the_upstream_format() {
    let tokens = parse("t0ken,admin,1,\"system:masters,ops\"\n\nother, bob , 2\n").unwrap();
    let admin = tokens.owner("t0ken").unwrap();
    assert_eq!(admin.user, "admin");
    assert_eq!(admin.groups, ["system:masters", "ops", "system:authenticated"]);
    assert_eq!(tokens.owner("other").unwrap().user, "bob");
    assert!(tokens.owner("").is_none());
}

#[test]
fn errors_name_the_line_and_not_the_token() {
    for (text, line) in [("a,b", 1), ("a,b,c\n,b,c", 2), ("a,b,c,\"d", 1)] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}")), "{error}");
    }
    assert!(!parse("s3cret,b").unwrap_err().to_string().contains("s3cret"));
}
