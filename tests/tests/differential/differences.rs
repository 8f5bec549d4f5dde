//! All allowed differences between the stores.

use syncguard::{ErrorCode, LockId};
use syncguard_tests::differential::{Answer, Names, Step};

use crate::differential::script::LONG;
use crate::differential::stores::Stores;

/// In Redis two kinds of keys would be records of other keys.
#[tokio::test]
async fn reserved_keys_are_refused_by_redis_alone() {
    let stores = Stores::fresh().await;
    let id = LockId::generate().unwrap();
    let reserved = [format!("fence:{}:x", stores.prefix), format!("id:{}", id.expose())];
    let names = Names::new(&[&reserved[0], &reserved[1]], 2);
    let refused = Answer::Failed(ErrorCode::InvalidArgument);
    for key in 0..2 {
        let acquire = Step::Acquire { key, id: key, ttl: LONG };
        let taken = Answer::Acquired(1);
        let expected = [taken.clone(), refused.clone(), taken.clone(), taken.clone(), taken];
        assert_eq!(stores.all_take(acquire, &names).await, expected);
        let (yes, locked) = (Answer::Is(true), Step::IsLocked { key });
        let expected = [yes.clone(), refused.clone(), yes.clone(), yes.clone(), yes];
        assert_eq!(stores.all_take(locked, &names).await, expected);
    }
}

/// A lock id must be fresh. All stores notice a used id if the lock was taken through the same backend; Firestore
/// only then, because nothing in it keeps two documents from having one id.
#[tokio::test]
async fn a_lock_id_of_another_key_is_refused() {
    let stores = Stores::fresh().await;
    let names = Names::new(&["one", "two"], 1);
    let first = stores.all_take(Step::Acquire { key: 0, id: 0, ttl: LONG }, &names).await;
    assert_eq!(first.to_vec(), vec![Answer::Acquired(1); 5]);
    let refused = Answer::Failed(ErrorCode::InvalidArgument);
    let second = stores.all_take(Step::Acquire { key: 1, id: 0, ttl: LONG }, &names).await;
    assert_eq!(second.to_vec(), vec![refused; 5]);
    let locked = stores.all_take(Step::IsLocked { key: 0 }, &names).await;
    assert_eq!(locked.to_vec(), vec![Answer::Is(true); 5]);
    // The stores have refused without a trace.
    let released = stores.all_take(Step::Release { id: 0 }, &names).await;
    assert_eq!(released.to_vec(), vec![Answer::Released; 5]);
}
