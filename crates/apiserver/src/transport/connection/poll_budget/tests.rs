use std::sync::atomic::AtomicUsize;

use super::*;

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_is_woken_while_it_runs_goes_on_and_what_is_woken_later_wakes_the_task() {
    let (turn, counted) = (Turn::new(), Arc::<Counted>::default());
    let outer = Waker::from(counted.clone());
    let mut rounds = 0;
    let mut inner = None;
    let ended = turn.run(&mut Context::from_waker(&outer), |context| {
        rounds += 1;
        if rounds < 3 {
            context.waker().wake_by_ref();
        }
        inner = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    assert!(ended.is_pending());
    assert_eq!((rounds, counted.0.load(Ordering::SeqCst)), (3, 0));
    inner.unwrap().wake();
    assert_eq!(counted.0.load(Ordering::SeqCst), 1);
}

#[test]
fn others_have_their_turn() {
    let (turn, counted) = (Turn::new(), Arc::<Counted>::default());
    let outer = Waker::from(counted.clone());
    let mut rounds = 0;
    let ended = turn.run(&mut Context::from_waker(&outer), |context| {
        rounds += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(ended.is_pending());
    assert_eq!((rounds, counted.0.load(Ordering::SeqCst)), (ROUNDS_MAX, 1));
}
