//! The usual part of a script decides nothing else than the long way would.

use anyhow::Result;

use crate::redis::records::{ID, corrupt, record_with};
use crate::redis::support::stage;

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!("../../../crates/syncguard-redis/src/lua/", $name, ".lua"))
    };
}

#[tokio::test]
async fn the_usual_part_of_a_script_agrees_with_the_long_way() -> Result<()> {
    let (_, prefix, raw) = stage("usual").await;
    let both = |name, before, usual, rest| {
        let record = lua!("record");
        let way = |first| format!("function(KEYS, ARGV)\n{first}\n{record}\n{rest}\nend");
        format!("{name} = {{ {}, {} }},\n", way(usual), way(before))
    };
    let scripts = [
        both(
            "acquire",
            "local text = redis.pcall('GET', KEYS[1])",
            lua!("acquire_usual"),
            lua!("acquire"),
        ),
        both("release", "", lua!("release_usual"), lua!("release")),
        both("extend", "", lua!("extend_usual"), lua!("extend")),
    ];
    let script = include_str!("usual.lua").replace("--SCRIPTS", &scripts.concat());
    let head = format!("{{\"key\":\"k\",\"lockId\":\"{ID}\",\"fence\":\"");
    let usual = |expires_at: &str, people: &str| {
        format!("{head}000000000000001\",\"acquiredAtMs\":1,\"expiresAtMs\":{expires_at}{people}}}")
    };
    let mut records = vec![head.clone(), "nothing".to_owned(), "a list".to_owned()];
    // The expiry that a lock would get; the end of the tolerance; a number in an unusual form.
    for expires_at in [
        "1700000030007",
        "1700000029000",
        "1699999999007",
        "1699999999008",
        "001700000030007",
        "1.7e12",
    ] {
        records.push(usual(expires_at, ",\"holder\":\"h/1\""));
    }
    for people in [
        "",
        ",\"holder\":\"\"",
        ",\"holder\":\"h\",\"note\":\"n\"",
        ",\"holder\":\"a\\\"b\"",
        ",\"holder\":\"a\"b\"",
        ",\"holder\":\"h\",\"fence\":\"000000000000009\"",
        ",\"holder\":\"h\",\"expiresAtMs\":1",
        ",\"other\":{}",
    ] {
        records.push(usual("1700000030007", people));
    }
    for (part, other) in [("000000000000001", "1"), (":1,", ":99999999999999999,")] {
        records.push(usual("1700000029000", ",\"holder\":\"h\"").replace(part, other));
    }
    records.push(record_with("lockId", "\"AAAAAAAAAAAAAAAAAAAAAA\""));
    records.push(format!(" {}", usual("1700000029000", ",\"holder\":\"h\"").replace(':', " : ")));
    records.extend(corrupt().into_iter().map(|(record, _)| record));
    let other = format!("{prefix}:other");
    let names = [
        format!("{prefix}:k"),
        format!("{prefix}:fence:k"),
        format!("{prefix}:id:a"),
        format!("{prefix}:id:b"),
        other,
    ];
    let mut arguments = vec![script.as_str(), "5"];
    arguments.extend(names.iter().chain(&records).map(String::as_str));
    let answer: (u64, Vec<String>, Vec<String>) = raw.send("EVAL", &arguments).await.convert()?;
    let (states, differ, kinds) = answer;
    assert!(differ.is_empty(), "{} of {states} differ, such as {}", differ.len(), differ[0]);
    assert!(states > 5000 && kinds.len() > 25, "{states} states, {kinds:?}");
    Ok(())
}
