//! Fenced writes: data in Redis under locks of any store.

use anyhow::{Result, ensure};
use redis::{Client, ErrorKind, Script};
use syncguard::Fence;
use syncguard::fenced::{check, redis as fenced};
use syncguard_test_services::redis::RedisServer;

use crate::redis::support::{fresh, shared};
use crate::support::writers::{LANES, Outcome, Writers};

struct Data {
    client: Client,
    guard: String,
    script: Script,
}

impl Data {
    fn new(server: &RedisServer) -> Result<Self> {
        let client = Client::open(server.url())?;
        Ok(Self { client, guard: fresh("fence"), script: Script::new(fenced::SCRIPT) })
    }

    async fn run(&self, fence: Fence, commands: &[&[&str]]) -> redis::RedisResult<i64> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let mut call = self.script.key(&self.guard);
        let arguments = fenced::arguments(fence, commands.iter().copied());
        call.arg(arguments).invoke_async(&mut connection).await
    }
}

#[tokio::test]
async fn nothing_stale_goes_in() -> Result<()> {
    let (data, writers) = (Data::new(shared())?, Writers::default());
    let (trace, total) = (fresh("trace"), fresh("total"));
    let lanes = (0..LANES).map(async |lane| {
        let lane = writers.lane(lane, async |fence| {
            let text = format!("{},", fence.get());
            let commands = [&["APPEND", &trace, &text][..], &["INCR", &total]];
            let answer = data.run(fence, &commands).await?;
            Ok(if check(fence, answer).is_ok() { Outcome::Written } else { Outcome::Stale })
        });
        lane.await
    });
    for result in futures_util::future::join_all(lanes).await {
        result?;
    }
    let server = shared();
    let (trace, total) = (server.cli(&["GET", &trace])?, server.cli(&["GET", &total])?);
    writers.check(&trace, total.parse()?)
}

#[tokio::test]
async fn the_fence_has_no_expiry_and_a_foreign_value_is_refused() -> Result<()> {
    let server = shared();
    let data = Data::new(server)?;
    let written = fresh("written");
    let fence = Fence::new(7)?;
    server.cli(&["SET", &data.guard, "000000000000003", "EX", "60"])?;
    ensure!(data.run(fence, &[&["SET", &written, "1"]]).await? == 7);
    ensure!(server.cli(&["TTL", &data.guard])? == "-1");
    // The commands before one that fails stay, as in MULTI, and the fence has moved.
    let eighth = Fence::new(8)?;
    let failed = data.run(eighth, &[&["INCR", &written], &["NO-SUCH-COMMAND"]]).await;
    ensure!(failed.is_err());
    ensure!(server.cli(&["MGET", &written, &data.guard])? == format!("2\n{eighth}"));
    for value in ["", "many", "-9"] {
        server.cli(&["SET", &data.guard, value])?;
        let error = data.run(fence, &[&["INCR", &written]]).await.unwrap_err();
        ensure!(
            error.kind() == ErrorKind::Server(redis::ServerErrorKind::ResponseError),
            "{error:?}"
        );
    }
    ensure!(server.cli(&["GET", &written])? == "2");
    Ok(())
}

/// A write that the server would refuse in the middle, or without a fence: nothing is written, and the fence stays.
#[tokio::test]
async fn what_cannot_run_is_refused_before_the_first_write() -> Result<()> {
    let server = shared();
    let data = Data::new(server)?;
    let written = fresh("written");
    let ninth = Fence::new(9)?.to_string();
    server.cli(&["SET", &data.guard, &ninth])?;
    let long = |words: usize| [vec!["DEL"], vec!["none"; words - 1]].concat();
    for (words, runs) in [(7998, false), (8001, false), (20_000, false), (7997, true)] {
        let commands = [&["INCR", &written][..], &long(words)];
        let answer = data.run(Fence::new(10)?, &commands).await;
        ensure!(answer.is_ok() == runs, "{words}: {answer:?}");
        let error = answer.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(runs || error.contains("1 to 7997 words"), "{error}");
    }
    ensure!(server.cli(&["GET", &written])? == "1");
    server.cli(&["SET", &data.guard, &ninth])?;
    let mut connection = data.client.get_multiplexed_async_connection().await?;
    for arguments in [
        &["10", "2", "INCR", &written, "0"][..],
        &["10", "2", "INCR", &written, "3", "DEL", "a"],
        &["10", "2", "INCR", &written, "many"],
        &["10", "2", "INCR", &written, "1.5", "DEL", "a"],
        &["nan", "2", "INCR", &written],
        &["0x9", "2", "INCR", &written],
        &["9000000000000000", "2", "INCR", &written],
        &["", "2", "INCR", &written],
    ] {
        let mut call = data.script.key(&data.guard);
        let answer: redis::RedisResult<i64> =
            call.arg(arguments).invoke_async(&mut connection).await;
        ensure!(answer.is_err(), "{arguments:?}: {answer:?}");
    }
    ensure!(server.cli(&["MGET", &written, &data.guard])? == format!("1\n{ninth}"));
    Ok(())
}
