//! Fenced writes: data in Redis under locks of any store.

use anyhow::{Result, ensure};
use redis::{Client, ErrorKind, Script};
use syncguard::Fence;
use syncguard::fenced::{check, redis as fenced};
use syncguard_test_services::redis::RedisServer;

use crate::redis::support::{fresh, shared};
use crate::support::writers::{Attempt, LANES, Writers};

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
            Ok(if check(fence, answer).is_ok() { Attempt::Written } else { Attempt::Stale })
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
