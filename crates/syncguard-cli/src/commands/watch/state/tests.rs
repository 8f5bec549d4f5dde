use super::*;

/// A moment, in seconds since 1970.
const NOW: u64 = 1_795_600_000;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(NOW + seconds)
}

fn keys(state: &State) -> Vec<String> {
    state.shown().iter().map(|lock| lock.name()).collect()
}

fn press(state: &mut State, keys: &str) {
    for char in keys.chars() {
        assert!(state.press(Pressed::Char(char)));
    }
}

fn some_locks() -> State {
    let mut state = State::default();
    let locks = [
        Lock::sample("1", "exports:permit:10", "web-2/9", NOW, 50, 20),
        Lock::sample("2", "exports:permit:2", "web-1/7", NOW, 70, 25),
        Lock::sample("3", "nightly", "cron/3", NOW, 90, 10),
        Lock::sample("4", "pay:1", "web-1/8", NOW, 10, 30),
    ];
    state.look(locks.to_vec(), None, at(0));
    state
}

#[test]
fn s_sorts_by_the_next_column() {
    let mut state = some_locks();
    let orders = [
        ["nightly", "exports permit 2", "exports permit 10", "pay:1"],
        ["exports permit 2", "exports permit 10", "nightly", "pay:1"],
        ["nightly", "exports permit 2", "exports permit 10", "pay:1"],
        ["nightly", "exports permit 10", "exports permit 2", "pay:1"],
        ["nightly", "exports permit 2", "pay:1", "exports permit 10"],
    ];
    for order in orders {
        assert_eq!(keys(&state), order, "{:?}", state.sort);
        press(&mut state, "s");
    }
    assert_eq!(keys(&state), orders[0]);
    state.locks[3].is_late = true;
    assert_eq!(keys(&state), ["pay:1", "nightly", "exports permit 2", "exports permit 10"]);
}

#[test]
fn a_filter_finds_keys_holders_and_notes() {
    let mut state = some_locks();
    press(&mut state, "/WEB-1");
    assert!(state.is_typing);
    assert_eq!(keys(&state), ["exports permit 2", "pay:1"]);
    // While a filter is typed, s and q are letters.
    press(&mut state, "sq");
    assert!(keys(&state).is_empty());
    for _ in 0..2 {
        state.press(Pressed::Backspace);
    }
    state.press(Pressed::Enter);
    assert!(!state.is_typing && state.filter == "WEB-1");
    press(&mut state, "s");
    assert_eq!(keys(&state), ["exports permit 2", "pay:1"]);
    state.press(Pressed::Escape);
    assert_eq!(keys(&state).len(), 4);
    press(&mut state, "/:permit:2");
    assert_eq!(keys(&state), ["exports permit 2"], "the stored key is found as well");
    state.press(Pressed::Escape);
    assert!(!state.press(Pressed::Char('q')));
}

#[test]
fn a_look_says_what_came_and_went() {
    let mut state = some_locks();
    assert_eq!(state.changes, None);
    let locks = [
        Lock::sample("1", "exports:permit:10", "web-2/9", NOW, 50, 20),
        Lock::sample("5", "nightly", "cron/4", NOW, 0, 30),
        Lock::sample("6", "pay:2", "web-1/8", NOW, 0, 30),
    ];
    state.look(locks.to_vec(), None, at(2));
    let expected = Changes {
        came: vec!["pay:2".to_owned()],
        went: vec!["exports permit 2".to_owned(), "pay:1".to_owned()],
        passed_on: vec!["nightly".to_owned()],
    };
    assert_eq!(state.changes, Some(expected));
    state.fail("away".to_owned());
    assert_eq!(state.locks.len(), 3, "the last table stays");
    state.look(locks.to_vec(), None, at(4));
    assert!(state.failure.is_none() && state.changes.as_ref().unwrap().is_empty());
}

#[test]
fn a_lock_that_is_not_renewed_in_time_is_late() {
    let mut state = State::default();
    let lock = |left| vec![Lock::sample("1", "k", "h", NOW, 50, left)];
    let is_late = |state: &State| state.locks.iter().map(|lock| lock.is_late).collect::<Vec<_>>();
    // The TTL is not known yet: 8 of 30 seconds may be left, or 8 of 8.
    state.look(lock(8), None, at(0));
    assert_eq!(is_late(&state), [false]);
    // Renewed: it is at least 30 seconds.
    state.look(lock(32), None, at(2));
    assert_eq!(is_late(&state), [false]);
    state.look(lock(32), None, at(22));
    assert_eq!(is_late(&state), [false]);
    state.look(lock(32), None, at(23));
    assert_eq!(is_late(&state), [true]);
    state.look(lock(60), None, at(30));
    assert_eq!(is_late(&state), [false]);
    // Another lock of the same key has a TTL of its own.
    state.look(vec![Lock::sample("2", "k", "h", NOW + 31, 0, 5)], None, at(31));
    assert_eq!(is_late(&state), [false]);
}
