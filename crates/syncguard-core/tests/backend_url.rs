//! The URLs of backends: what they have in common, and what is refused.

use std::time::Duration;

use proptest::prelude::*;
use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::BackendUrl;

const NAMES: &[&str] = &["key_prefix", "wait_ms", "count", "strict"];

fn parse(url: &str) -> Result<BackendUrl<'_>, LockError> {
    let url = BackendUrl::parse(url)?;
    url.expect_only(&[NAMES], &["node"])?;
    Ok(url)
}

fn message(result: Result<impl Sized, LockError>) -> String {
    result.map(drop).unwrap_err().message().to_owned()
}

#[test]
fn a_url_comes_apart() {
    let url = "db://u:p@h,i:1/x?key_prefix=%7Bapp%7D+%C3%A9&wait_ms=250&&strict=true&count=7&node=a&node=b";
    let url = parse(url).unwrap();
    assert_eq!((url.scheme(), url.base()), ("db", "db://u:p@h,i:1/x"));
    assert_eq!(url.text("key_prefix").unwrap().unwrap(), "{app}+é");
    assert_eq!(url.millis("wait_ms").unwrap(), Some(Duration::from_millis(250)));
    assert_eq!(url.flag("strict").unwrap(), Some(true));
    assert_eq!(url.number("count", 0_u8..=7).unwrap(), Some(7));
    assert_eq!(url.texts("node").unwrap(), ["a", "b"]);
    assert_eq!(url.with_only(&["node", "count"]), "db://u:p@h,i:1/x?count=7&node=a&node=b");
    assert_eq!(url.with_only(&[]), url.base());
    assert_eq!(url.after_scheme().unwrap(), "//u:p@h,i:1/x");
    assert!(!format!("{url:?}").contains('p'), "{url:?}");

    let bare = parse("db:").unwrap();
    assert!(!bare.has("count") && bare.text("key_prefix").unwrap().is_none());
    assert_eq!(parse("nothing?").unwrap().scheme(), "");
    assert_eq!(parse("nothing?").unwrap().after_scheme().unwrap(), "");
    assert_eq!(parse("db:%C3%A9%3F").unwrap().after_scheme().unwrap(), "é?");
    assert!(message(parse("db:%zz").unwrap().after_scheme()).contains("%25"));
}

#[test]
fn what_is_wrong_is_said_with_what_is_allowed() {
    assert_eq!(
        message(parse("db:?count=1&hunter2=3")),
        "parameter 2 of the URL is not known; allowed are: count, key_prefix, node, strict, wait_ms"
    );
    for copied in ["db:?SSLMODE=require", "db:?count=1&sslmode=hunter2"] {
        let said = message(parse(copied));
        assert!(said.starts_with("the parameter sslmode of the URL is not known here"), "{said}");
    }
    assert!(message(parse("db:?count=1&count=1")).contains("count more than once"));
    assert!(
        message(parse("db:?count=1&strict")).starts_with("parameter 2 of the URL has no value")
    );
    for url in ["db://u:p?strict=true@h", "db:?strict=true#x"] {
        assert!(message(parse(url)).contains("%40"), "{url}");
    }
    for url in ["db:\n", " db:", "db://h?key_prefix=a b", "db:\0", "\u{feff}db:", "db:\u{2066}h"] {
        assert!(message(parse(url)).contains("white space"), "{url}");
    }
    let number = |value: &str| {
        let url = format!("db:?count={value}");
        let url = parse(&url)?;
        url.number("count", 1_usize..=64)
    };
    for value in ["", "0", "65", "-1", "+1", "1.5", "1e1", "0x1", "99999999999999999999999"] {
        assert_eq!(
            message(number(value)),
            "the parameter count of the URL must be a whole number from 1 to 64"
        );
    }
    assert_eq!(number("064").unwrap(), Some(64));
    for value in ["0", "3153600000001", "1s", "1.0"] {
        let url = format!("db:?wait_ms={value}");
        assert!(
            message(parse(&url).unwrap().millis("wait_ms")).contains("from 1 to 3153600000000")
        );
    }
    for value in ["", "1", "yes", "True", "%74rue"] {
        let url = format!("db:?strict={value}");
        assert!(message(parse(&url).unwrap().flag("strict")).ends_with("true or false"));
    }
    for value in ["%", "%4", "%zz", "a%+1", "%é"] {
        let url = format!("db:?key_prefix={value}");
        assert!(message(parse(&url).unwrap().text("key_prefix")).contains("%25"), "{value}");
    }
    let latin = parse("db:?key_prefix=%E9").unwrap();
    assert!(message(latin.text("key_prefix")).contains("UTF-8"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn nothing_panics_and_no_message_quotes_the_url(
        before in "[ -~]{0,12}|\\PC{0,6}",
        after in "(&?(count|strict|wait_ms|key_prefix|node|[a-z]{0,3})(=?[ -~]{0,6}|=[0-9]{0,4}|=%\\PC{0,2})){0,4}",
    ) {
        let secret = "Xq7ZkV";
        for url in [
            format!("{before}{secret}?{after}"),
            format!("{before}?{after}{secret}"),
            format!("{before}?{after}={secret}"),
            format!("{before}?{secret}{after}"),
        ] {
            let parsed = parse(&url);
            let results = match &parsed {
                Err(error) => vec![error.clone()],
                Ok(url) => NAMES
                    .iter()
                    .flat_map(|name| {
                        [
                            url.text(name).err(),
                            url.flag(name).err(),
                            url.number(name, 0..=9_u8).err(),
                            url.millis(name).err(),
                        ]
                    })
                    .flatten()
                    .collect(),
            };
            for error in results {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(secret), "{shown}");
            }
            let shown = format!("{parsed:?}");
            prop_assert!(!shown.contains(secret), "{shown}");
        }
    }
}
