use super::*;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nbroken line\nweb:x:101:102:Web:/srv/web:/bin/false\n";
const GROUP: &str = "root:x:0:\nweb:x:102:\nlogs:x:103:web,other\nmail:x:104:other\nwheel:x:10:root,web\n";

fn root(user: &str) -> ImageRoot {
    ImageRoot {
        user: user.to_owned(),
        merges_groups: true,
        ..ImageRoot::default()
    }
}

fn account(user: &str, confinement: &Confinement) -> io::Result<Account> {
    resolve(&root(user), confinement, PASSWD, GROUP)
}

#[track_caller]
fn assert_account(user: &str, confinement: &Confinement, expected: (u32, u32, &[u32], &str)) {
    let account = account(user, confinement).expect("an account");
    let Account {
        user,
        group,
        groups,
        home,
    } = &account;
    assert_eq!((*user, *group, groups.as_slice(), home.as_str()), expected);
}

#[test]
fn user_of_the_image_has_its_groups_and_home() {
    let none = Confinement::default();
    assert_account("web", &none, (101, 102, &[103, 10], "/srv/web"));
    assert_account("101", &none, (101, 102, &[103, 10], "/srv/web"));
    assert_account("", &none, (0, 0, &[10], "/root"));
    assert_account("5000", &none, (5000, 0, &[], "/"));
    assert_account("web:mail", &none, (101, 104, &[], "/srv/web"));
    assert_account("5000:7", &none, (5000, 7, &[], "/"));
}

#[test]
fn security_context_precedes_the_image() {
    let confinement = Confinement {
        user: Some(101),
        groups: vec![2000],
        ..Confinement::default()
    };
    assert_account(
        "root:wheel",
        &confinement,
        (101, 102, &[2000, 103, 10], "/srv/web"),
    );
    let grouped = Confinement {
        group: Some(3000),
        ..Confinement::default()
    };
    assert_account("web:mail", &grouped, (101, 3000, &[], "/srv/web"));
}

#[test]
fn strict_policy_ignores_the_groups_of_the_image() {
    let strict = ImageRoot {
        merges_groups: false,
        ..root("web")
    };
    let account = resolve(&strict, &Confinement::default(), PASSWD, GROUP).expect("an account");
    assert!(account.groups.is_empty(), "{account:?}");
}

#[test]
fn rejects_names_without_an_entry() {
    let none = Confinement::default();
    let user = account("nobody", &none).unwrap_err().to_string();
    assert_eq!(
        user,
        "unable to find user nobody: no matching entries in passwd file of the image"
    );
    assert!(
        account("web:none", &none)
            .unwrap_err()
            .to_string()
            .contains("group none")
    );
}

#[test]
fn rejects_numbers_that_the_kernel_interprets_as_no_change() {
    let none = Confinement::default();
    for user in ["4294967295", "2147483648", "5000:4294967295"] {
        let error = account(user, &none).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{user}");
    }
    let passwd = "high:x:4294967295:4294967295::/:/bin/sh\n";
    assert!(resolve(&root("high"), &none, passwd, "").is_err());
}

#[test]
fn relative_home_becomes_the_root_directory() {
    let passwd = "a:x:1:1::../etc:/bin/sh\n";
    let account = resolve(&root("a"), &Confinement::default(), passwd, "").expect("an account");
    assert_eq!(account.home, "/");
}
