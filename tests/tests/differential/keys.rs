//! Keys that a store could confuse.

use syncguard::{Key, LockBackend};
use syncguard_tests::differential::{Answer, Names, Step, take};

use crate::differential::script::{LONG, Script};
use crate::differential::stores::Stores;

fn odd_keys() -> Vec<String> {
    let odd = [
        "/",
        "//",
        "a/b/c",
        "/a",
        "a/",
        ".",
        "..",
        "../x",
        "__x__",
        "____",
        "__",
        "_",
        " ",
        " a",
        "a ",
        "a",
        "A",
        "tab\t",
        "line\nbreak",
        "\r\n",
        "\u{7f}",
        "\u{1}",
        "\"",
        "'",
        "`",
        "\\",
        "\\\"",
        "%",
        "%2F",
        "%s",
        "*",
        "?[a-z]",
        "{tag}",
        "{",
        ":",
        "::",
        "a:b",
        ":a",
        "a:",
        "id",
        "id:",
        "id:short",
        "fence",
        "fence:",
        "fence:a",
        "null",
        "true",
        "0",
        "-1",
        "$1",
        "--",
        ";",
        "<b>",
        "é",
        "ключ",
        "鍵",
        "🔑",
        "\u{200b}",
        "\u{feff}",
        "\u{202e}",
        "e\u{323}\u{307}",
        "\u{212b}",
        "\u{fb01}",
        "\u{1d15e}",
    ];
    let mut keys: Vec<String> = odd.iter().map(|key| (*key).to_owned()).collect();
    for repeated in ["x", "/", "é", "🔑", "\\", "\""] {
        keys.push(repeated.repeat(Key::MAX_LENGTH_BYTES / repeated.len()));
    }
    keys
}

/// All keys are held at the same time, so that two keys which a store confuses show.
#[tokio::test]
async fn odd_keys_are_keys_like_any_other() {
    let keys = odd_keys();
    let texts: Vec<&str> = keys.iter().map(String::as_str).collect();
    let names = Names::new(&texts, 2 * keys.len());
    let stores = Stores::fresh().await;
    for backend in &stores.backends {
        all_keys(backend, &names).await;
    }
}

async fn all_keys<B: LockBackend<Fence = syncguard::Fence>>(backend: &B, names: &Names) {
    let store = backend.capabilities().backend;
    let count = names.keys.len();
    let expect = async |key: usize, step: Step, expected: Answer| {
        let answer = take(backend, step, names).await;
        assert_eq!(answer, expected, "{store}, {:?}, {step:?}", names.keys[key]);
    };
    for key in 0..count {
        expect(key, Step::Acquire { key, id: key, ttl: LONG }, Answer::Acquired(1)).await;
    }
    for key in 0..count {
        expect(key, Step::Acquire { key, id: count + key, ttl: LONG }, Answer::Locked).await;
        expect(key, Step::IsLocked { key }, Answer::Is(true)).await;
        let Answer::Found(Some(found)) = take(backend, Step::ByKey { key }, names).await else {
            panic!("{store}: {:?} is not found", names.keys[key]);
        };
        let text = Key::new(&names.keys[key]).expect("a key");
        assert_eq!((found.key.as_str(), found.id), (text.expose(), Some(key)), "{store}");
        expect(key, Step::ById { id: key }, Answer::Found(Some(found))).await;
        expect(key, Step::Extend { id: key, ttl: LONG }, Answer::Extended).await;
    }
    for key in 0..count {
        expect(key, Step::Release { id: key }, Answer::Released).await;
        expect(key, Step::IsLocked { key }, Answer::Is(false)).await;
        expect(key, Step::Acquire { key, id: count + key, ttl: LONG }, Answer::Acquired(2)).await;
    }
}

#[tokio::test]
async fn two_spellings_of_the_same_characters_are_one_key() {
    Script::new(&["caf\u{e9}/\u{1e69}", "cafe\u{301}/s\u{323}\u{307}", "cafe/s"], 3)
        .takes(0, 0, LONG, 1)
        .meets_a_lock(1, 1)
        .sees(1, true)
        .finds(1, 0, 1, 20)
        .takes(2, 2, LONG, 1)
        .releases(0)
        .takes(1, 1, LONG, 2)
        .sees(0, true)
        .finds(0, 1, 2, 20)
        .play()
        .await;
}
