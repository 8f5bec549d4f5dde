//! The normalisation of keys.

use std::time::Duration;

use syncguard_core::contract::LookupRequest;
use syncguard_core::{Fence, Key, LockConfig, acquire};

use crate::context::{Context, HeldLock, LONG, fresh_text, polling_every};
use crate::outcome::{Outcome, Stop, ensure, ensure_eq};

pub(crate) async fn both_normal_forms_are_one_key(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    for (composed, decomposed) in
        [("caf\u{e9}", "cafe\u{301}"), ("\u{d55c}", "\u{1112}\u{1161}\u{11ab}")]
    {
        let fresh = fresh_text()?;
        let composed = Key::new(format!("{fresh}-{composed}"))?;
        let decomposed = Key::new(format!("{fresh}-{decomposed}"))?;
        let lock = client.take(&composed, LONG).await?;
        other.refused(&decomposed, LONG).await?;
        other.live(&decomposed, lock.lock_id).await?;
        client.released(lock.lock_id).await?;
        let next = other.take(&decomposed, LONG).await?;
        ensure!(next.fence > lock.fence || !client.fences(), "two spellings, two counters");
    }
    Ok(())
}

pub(crate) async fn similar_keys_are_different_keys(context: &Context<'_>) -> Outcome {
    // Texts that collations, trimming and looser normal forms treat as equal.
    const SIMILAR: &str = "file|FILE|File|file | file|file\t|file\n|file\r\n|fi le|\u{fb01}le|\u{ff46}ile\
        |f\u{131}le|f\u{ed}le|fi\u{200b}le|fi\u{ad}le|\u{feff}file|file\u{301}|fil\u{435}|f\u{2071}le";
    // Keys that differ at the end, in the middle and at the beginning.
    for form in ["?{}?", "{}?"] {
        let form = form.replace("{}", &fresh_text()?);
        let texts = SIMILAR.split('|').map(|text| form.replace('?', text)).collect();
        side_by_side(context, texts).await?;
    }
    Ok(())
}

pub(crate) async fn the_longest_keys_work(context: &Context<'_>) -> Outcome {
    let longest = |filler: &str| {
        let mut text = fresh_text()?;
        while text.len() + filler.len() <= Key::MAX_LENGTH_BYTES {
            text.push_str(filler);
        }
        text.push_str(&"-".repeat(Key::MAX_LENGTH_BYTES - text.len()));
        Ok::<_, Stop>(text)
    };
    let texts = vec![longest("x")?, longest("\u{20ac}")?, longest("\u{1f980}")?, longest("%")?];
    side_by_side(context, texts).await
}

pub(crate) async fn long_keys_are_told_apart_by_their_last_byte(context: &Context<'_>) -> Outcome {
    let mut stem = fresh_text()?;
    stem.push_str(&"x".repeat(Key::MAX_LENGTH_BYTES - 1 - stem.len()));
    let mut texts = ["a", "b", "A", " "].map(|end| format!("{stem}{end}")).to_vec();
    texts.push(stem);
    side_by_side(context, texts).await
}

pub(crate) async fn keys_may_look_like_paths(context: &Context<'_>) -> Outcome {
    around(
        context,
        "{} {}/ /{} {}/a {}//a a/{} {}/a/b/c ./{} ../{} {}/. {}/.. {}:a {}:a:b:c {}: :{} {}.a {}\\a ~{} \
         C:\\{} https://{}/?q=a#b",
    )
    .await
}

pub(crate) async fn keys_may_look_like_the_stores_own_names(context: &Context<'_>) -> Outcome {
    around(
        context,
        "{} fence:{} fence:fence:{} fence/{} {}:fence id:{}-lock id:id:{} lock:{} locks/{} __{}__ __id{}__ \
         _{} {{}} {{}}:a a{{}} key:{} null{} true{} 0{}",
    )
    .await
}

pub(crate) async fn keys_may_hold_quotes_and_wildcards(context: &Context<'_>) -> Outcome {
    around(
        context,
        "{} '{}' \"{}\" `{}` {}' {}'' {}\\' {}\\ %{} {}% {}%41 {}_ {}* {}? {}[a] $1{} ${} ?{} \
         ';DROP/**/TABLE/**/locks;--{} {\"lockId\":\"{}\"} {}\\u0041 {}&a=b {}+a <{}> {}\\n ${{}} #{{}}",
    )
    .await
}

pub(crate) async fn keys_may_hold_control_characters_and_emoji(context: &Context<'_>) -> Outcome {
    around(
        context,
        "{} {}\n {}\r\n \n{} {}\t {}\u{1} {}\u{7f} {}\u{85} {}\u{a0} {}\u{2028} {}\u{200d} {}\u{202e} \
         {}\u{fffd} {}\u{ffff} {}\u{e000} {}\u{10ffff} {}\u{1f980} {}\u{1f469}\u{200d}\u{1f4bb} {}\u{5d0} \
         {}\u{1b}[0m",
    )
    .await
}

/// Holds keys of these forms, which spaces separate, around one text that is new.
async fn around(context: &Context<'_>, forms: &str) -> Outcome {
    let fresh = fresh_text()?;
    side_by_side(context, forms.split(' ').map(|form| form.replace("{}", &fresh)).collect()).await
}

pub(crate) async fn dots_are_keys(context: &Context<'_>) -> Outcome {
    let (client, other) = context.pair().await;
    // These two keys cannot be random: another run on the same store may hold them for a moment.
    let patient = polling_every(Duration::from_millis(20));
    let mut guards = Vec::new();
    for dots in [".", ".."] {
        let config =
            LockConfig::new(dots).with_ttl(Duration::from_secs(30)).with_acquisition(patient);
        let guard = acquire(client.backend(), config).await?;
        let Some(info) = other.find(LookupRequest::by_lock_id(guard.lock_id())).await? else {
            return Err(Stop::failed(format!("lookup found nothing of the live lock of {dots:?}")));
        };
        ensure_eq!(info.key.expose(), dots, "the exposed key");
        guards.push((Key::new(dots)?, guard));
    }
    for (key, guard) in guards {
        other.live(&key, guard.lock_id()).await?;
        ensure!(guard.release().await?.is_released(), "a live guard could not be released");
    }
    Ok(())
}

pub(crate) async fn a_key_may_read_like_a_lock_id(context: &Context<'_>) -> Outcome {
    let HeldLock { client, other, key, lock, before } = context.held().await?;
    let namesake = Key::new(lock.lock_id.expose())?;
    client.free(&namesake).await?;
    let other_lock = other.take(&namesake, LONG).await?;
    client.live(&namesake, other_lock.lock_id).await?;
    client.unchanged(&key, lock.lock_id, before).await?;
    other.released(other_lock.lock_id).await?;
    client.unchanged(&key, lock.lock_id, before).await?;
    Ok(client.released(lock.lock_id).await?)
}

/// Holds all these keys at the same time, and checks that they are separate locks.
async fn side_by_side(context: &Context<'_>, texts: Vec<String>) -> Outcome {
    let (client, other) = context.pair().await;
    let mut locks = Vec::new();
    for text in &texts {
        let key = Key::new(text)?;
        let about = |error| Stop::failed(format!("{text:?}: {error}"));
        let lock = client.take(&key, LONG).await.map_err(about)?;
        if client.fences() {
            ensure_eq!(lock.fence()?, Fence::new(1)?, "the first fence of {text:?}");
        }
        locks.push((text, key, lock));
    }
    for (text, key, lock) in &locks {
        let about = |error| Stop::failed(format!("{text:?}: {error}"));
        other.refused(key, LONG).await.map_err(about)?;
        other.live(key, lock.lock_id).await.map_err(about)?;
        let found = other.find(LookupRequest::by_lock_id(lock.lock_id)).await.map_err(about)?;
        let found = found.map(|info| info.key);
        ensure_eq!(found.as_ref().map(Key::expose), Some(key.expose()), "the exposed key");
    }
    for (index, (text, key, lock)) in locks.iter().enumerate() {
        let about = |error| Stop::failed(format!("{text:?}: {error}"));
        client.released(lock.lock_id).await.map_err(about)?;
        client.free(key).await.map_err(about)?;
        for (later, key, _) in &locks[index + 1..] {
            ensure!(
                client.is_locked(key).await?,
                "the lock of {later:?} ended with that of {text:?}"
            );
        }
    }
    for (text, key, lock) in &locks {
        let about = |error| Stop::failed(format!("{text:?}: {error}"));
        let again = client.take(key, LONG).await.map_err(about)?;
        let expected = lock.fence.map(Fence::next).transpose()?;
        ensure_eq!(again.fence, expected, "the second fence of {text:?}");
    }
    Ok(())
}
