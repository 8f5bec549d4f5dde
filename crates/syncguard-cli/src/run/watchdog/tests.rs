use std::cell::Cell;
use std::sync::mpsc::channel;
use std::thread;

use super::process::group_to_kill;
use super::*;

fn kept(said: &[&str]) -> Option<i32> {
    let (order, orders) = channel();
    for line in said {
        order.send((*line).to_owned()).unwrap();
    }
    if !said.contains(&"until 1") {
        drop(order);
        return group_to_kill(&orders, now).map(|group| group.as_raw_nonzero().get());
    }
    // `syncguard` still runs and is silent.
    let group = group_to_kill(&orders, now).map(|group| group.as_raw_nonzero().get());
    drop(order);
    group
}

#[test]
fn a_group_is_ended_when_its_holder_is_gone_or_silent_for_too_long() {
    assert_eq!(kept(&["group 7"]), Some(7), "gone");
    assert_eq!(kept(&["group 7", "until 1"]), Some(7), "silent");
    assert_eq!(kept(&["until 1", "group 7"]), Some(7), "silent before there was a group");
    assert_eq!(kept(&["until 1", "group 7", "end"]), None, "dismissed in time");
    let later = format!("until {}", (now() + Duration::from_secs(9)).as_millis());
    assert_eq!(kept(&["group 7", &later, "end"]), None, "dismissed");
    assert_eq!(kept(&[]), None, "there is no group yet");
}

/// While a machine sleeps, the boot clock continues, and the clock of the wait does not.
#[test]
fn a_deadline_that_comes_while_the_machine_sleeps_is_seen() {
    let (order, orders) = channel();
    order.send("until 3600000".to_owned()).unwrap();
    order.send("group 7".to_owned()).unwrap();
    let (end, ended) = channel();
    thread::spawn(move || {
        let looks = Cell::new(0);
        let group = group_to_kill(&orders, || {
            looks.set(looks.get() + 1);
            Duration::from_secs(if looks.get() == 1 { 0 } else { 7200 })
        });
        end.send(group.map(|group| group.as_raw_nonzero().get())).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(Some(7)));
    drop(order);
}

/// The pipe of a watchdog that reads nothing is full after some thousand orders.
#[tokio::test]
async fn a_watchdog_that_reads_nothing_is_replaced_in_bounded_time() {
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let orders = process.stdin.take().unwrap();
    let old = process.id().unwrap();
    let (program, started) = (PathBuf::from("/bin/cat"), Instant::now());
    let mut watchdog =
        Watchdog { program, process, orders, started, is_gone: false, group: None, deadline: None };
    let full = async {
        while watchdog.id() == Some(old) {
            let began = Instant::now();
            watchdog.allow_for(Duration::from_secs(9)).await;
            assert!(began.elapsed() < Duration::from_secs(10), "an order takes long");
        }
    };
    timeout(Duration::from_secs(60), full).await.expect("it waits for one that does not read");
    assert!(watchdog.id().is_some(), "there is another one");
    watchdog.dismiss().await;
}
