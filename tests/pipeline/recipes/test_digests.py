"""Tests that the digests of the recipes, which name datasets, do not change."""

import pytest

from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from tests.readable_recipes import READABLE

DIGESTS = {  # the first 40 of 64 digits
    "binpack-alibaba2017-heuristic-v1": "b698e30ef06d3f339794660a495e2e7adfbde870",
    "binpack-alibaba2017-random-v1": "43f6a632b65663a32854df8321cf4b8e93ad3e3b",
    "binpack-alibaba2017-v1": "5f8ecc31739329667ed9684453a8e292c91231b9",
    "binpack-cloudsimpy": "ff6bf17bef69b5bd38f5d2536dc21640d6afcac4",
    "binpack-deepjs": "38c58661a54021e583d90415d398a56a8a4e25ff",
    "binpack-online": "b980a973dc23b58b05465b0b843f0909c5f422d9",
    "binpack-synthetic-heuristic-v1": "5b76f661f8c73222be1ec3f9a455f7c5bb5d4f75",
    "binpack-synthetic-random-v1": "3fdd45a56ad9618263c58fa44991cf4102ec8654",
    "binpack-synthetic-v1": "d368660cbe5e06787f8fb68fce7da44350a62288",
    "deferrable-azure2020-v1": "2554d85463ba97194ba7ec32fce3495ab96986fe",
    "deferrable-base-heuristic-v1": "a24c3c35997c122592bbf5737f2753d56a96be96",
    "deferrable-base-random-v1": "92631450f54630a86d62e56b3f65fe6e28d0c1dc",
    "deferrable-base-v1": "c0b1e785ab630d98e65790fd72095464830bbc75",
    "deferrable-grid-kth-v1": "e33e9b818e36f4d02251592d3e1019e4e91ab330",
    "deferrable-grid-v1": "f2af2249abc39083541cad565725c47b5e8cd64a",
    "deferrable-grid-years-online": "c9714c68bb0528293cc554637017d0fbf9f08b73",
    "deferrable-grid-zones-v1": "6a84f5150646ef095750353380c893377e6cc16a",
    "deferrable-online": "efd07b1fd7d02006f8dca60156dcb0dc0a2db59a",
    "deferrable-osdec-online": "1e44b5aaebca1827af3c6e146a85427ee5a90ee2",
    "deferrable-prices-v1": "6a0059cb54deaa688b0772e228b958db9f06f9bc",
    "deferrable-realtime-v1": "43ef604d5498aa875cb422361c65db29b98d3813",
    "gpupack-evolution-online": "ae53884938487bdecc309b86ce6332d72a507822",
    "gpupack-families-online": "97447b0d0fddb2e5bebccf3e2fbbc8dc9737dcee",
    "gpupack-families-v1": "6f997bd4b574daed518b437908f20f3fcd702788",
    "gpupack-openb-v1": "9d7d8d3c479b600791a6207a03313ef32b2d555a",
    "gpupack-published": "889eea0c75ab58b5dc81880da5c64a328a6e565e",
    "gpupack-typical-heuristic-v1": "42de58f8262854372ae50e3fd5a8c7927fc43b25",
    "gpupack-typical-random-v1": "00805eb5e83600ea0993ba7304b560666484eacf",
    "gpupack-typical-v1": "de674493e63f34e85b2384d35513a41a83799b91",
    "multicluster-around-v1": "956bd1e2551bdc8a7b7b4cb1835088816dad7d7a",
    "multicluster-bernoulli-v1": "0b1e6e84902175cfdc97f59ec513cbe7dd8a07fc",
    "multicluster-beta-v1": "27faf71cc7e9404339b9dff9e4bf88ab7aa07f2e",
    "multicluster-evolution-online": "b5b160035650cdab607757266dc63249c76524db",
    "multicluster-foresight-online": "3cc2087fc4be8b2074f0de37031753cd1948545e",
    "multicluster-liu-online": "db01b9a05274d0b834f99979fc67f93953bc7e08",
    "multicluster-online": "da184f630f7f19dcc626d086925df08217d7c6f1",
    "multicluster-uniform-heuristic-v1": "73a89edd08fba702319e9d5052d6ce2922527a17",
    "multicluster-uniform-random-v1": "92d14cbf8521d35a66da45736dd052f46e291022",
    "multicluster-uniform-v1": "444e3200d25d17408e5cbc7b126f4b15c96eab0e",
    "queue-ctc-online": "3e07c8f90d871535a0aa421a7b7c15102d3d36d3",
    "queue-ctc-v1": "e6a9e4c059804a78f58721a2dfa71f4f6f7bdeb0",
    "queue-hpc2n-online": "ee4eef470fdc5c2cd6807023039bd21979b47eb1",
    "queue-hpc2n-v1": "423bf13063b89596b1033271999c246aba0e2c28",
    "queue-kth-heuristic-v1": "ee64cee8d14214b6b2d42a138d1114601abfbc4f",
    "queue-kth-online": "dfeb17259a7d60915957dc0ea2010f0c9708ab83",
    "queue-kth-random-v1": "42e9ba5d7c62a7de0a092ff4ccb2ea7d4e67929a",
    "queue-kth-recorded-v1": "96b09682e7b199f5b4d4295749a07bf5a9afcea2",
    "queue-kth-v1": "1821617643d5591409e7a167d147668d1d6b7037",
    "queue-lublin1-heuristic-v1": "d04f90e42ad48c34f638492d42c4e82a3a811016",
    "queue-lublin1-random-v1": "4fa13687c9c907ab9f35a40f5a6f2f7ecf941d80",
    "queue-lublin1-v1": "9e2e8608ae46808812512b7f6babad030e10f00e",
    "queue-lublin2-v1": "a17bcc035763ff0e7d4011ae5c714c40e1270c24",
    "queue-rlscheduler": "d63f2db791fba5d22d25543ed3c47634773a6455",
    "queue-sdsc-blue-online": "cbe46aa0c8d5271cc64e55a9d5876e771270c72e",
    "queue-sdsc-blue-v1": "8ce49e2e81ae89e6b0eaae4de0c40f6dd0695099",
    "queue-sdsc-sp2-online": "96eeb5c20a4cadf12d02e2f71c62f9f01f57d487",
    "queue-sdsc-sp2-recorded-v1": "cf5e2d35fc8e87ca25655c1494d3dde4d78f8461",
    "queue-sdsc-sp2-v1": "d09fec069c95409edfa945083ef633156b96ec22",
    "queue-swf": "7a2368d25bf5158e6831d0c7d41d18443565f86f",
    "rlscheduler-hpc2n-online": "848e2a05e4c923af31d0ca3234376def29bf5854",
    "rlscheduler-lublin1-heuristic-v1": "9e67f9e14000d940b2d157862113e47cf2c0de5e",
    "rlscheduler-lublin1-online": "76fb3c8e2fa1931de4b29104c36378a34e2236c7",
    "rlscheduler-lublin1-random-v1": "704e1cc7ed6bec803fc85552db2c242a6171ee7d",
    "rlscheduler-lublin1-v1": "e1676d3b01b409c8b585b0807ca6c4249db73691",
    "rlscheduler-lublin2-online": "120b2912d3ed2d3c3e1dc0fc53e3c330e996bcb3",
    "rlscheduler-sdsc-sp2-online": "a0c51450041bb31fe4608ffb6bd749f0ddd27f1d",
    "slots-deeprm-compat": "b40e3119d43720a89adb5e92e5ec4ee22f228dc5",
    "slots-deeprm-heuristic-v1": "ab1f6db7f97fc9ae36ac2863bfddd3fa056b1fc6",
    "slots-deeprm-natural": "1c46de7d0c98ebcfb5fb1da01d0b8707d59061f9",
    "slots-deeprm-online": "dac024d0e308913c3a87d829d76134f9d4476907",
    "slots-deeprm-random-v1": "a851220b1ab0ed5c8eba9c55ec12b63926f4243e",
    "slots-deeprm-rate10-heuristic-v1": "ea3d3771f2c8a6af9deb24c41891280411aba17f",
    "slots-deeprm-rate10-random-v1": "4654a20439668370122883c3a9d98b97f13be72d",
    "slots-deeprm-rate10-v1": "a56c60d0ab5adb4a9ac0df776713631d1d620b30",
    "slots-deeprm-v1": "58f56a158545d40bc00e3a5107d536b0db427077",
    "slots-demo-v1": "77133c94e8873e48f13aa1fd7e4cab612d1a5bda",
    "slots-online": "ef4a60c29e01b4d19e90e98dca72d3d3fccbcbbb",
    "slots-online-rate10": "c623dcc2dabd89c62b8b7ad783cb545250c95700",
    "slots-report-v1": "55abcc8827b7f2e1521a38b5348f59398156ca5c",
    "slots-stream-heuristic-v1": "dd7bd58d449faa15a9378487957b05a7c58765b5",
    "slots-stream-online": "d3cb57930e8eb94955815e9e62eb3d475516be1d",
    "slots-stream-random-v1": "d398ba0f964ca0b73e8f20dc9f66394bd712c5eb",
    "slots-stream-v1": "76df33072ac6556c8bfbad30d14ab9c158099a74",
    "thermal-default-heuristic-v1": "26b459be384b71b2ed76aeb6fc77d3d07bb40129",
    "thermal-default-random-v1": "b692c6857805eece4a3334c6633155ae54427e70",
    "thermal-default-v1": "248b79faaf557ecb0b5850a79591d3f932c4ee8f",
    "thermal-k10-v1": "48cb3a5b04a5f7a3d74a8100945c6fedbde08ded",
    "thermal-online": "cb4352c7cc31c7662e54df1f46c36ed912c2dacc",
    "thermal-paper-v1": "1d2ea027016c83bf5930fe98d461bacf8865591e",
}


def test_every_recipe_has_the_digest_that_its_datasets_state():
    assert list(DIGESTS) == known_recipes()
    found = {name: load_recipe(name).digest[:40] for name in READABLE}
    assert found == {name: DIGESTS[name] for name in READABLE}


@pytest.mark.parametrize(
    ("override", "section", "key"),
    [
        ("config.foresight", "config", "foresight"),
        ("evaluate.metrics", "evaluate", "metrics"),
        ("online.seeds", "online", "seeds"),
        ("online.imitate_steps", "online", "imitate_steps"),
        ("train.settings.dqn.steps", "train", "settings"),
    ],
)
def test_a_setting_that_recipes_leave_out_is_stated_where_it_is_not_the_default(
    override, section, key
):
    values = {"foresight": "true", "metrics": '["jobs"]', "seeds": "[1]"}
    played = ["online.iterations=5"]
    changed = [*played, f"{override}={values.get(key, 7)}"]
    plain, changed = (load_recipe("slots-report-v1", o).to_dict() for o in (played, changed))
    assert key not in plain[section]
    del changed[section][key]
    assert changed == plain


def test_foresight_of_multicluster_is_left_out_where_it_is_not_the_default():
    plain = load_recipe("multicluster-uniform-v1").to_dict()["config"]
    changed = load_recipe("multicluster-uniform-v1", ["config.foresight=true"]).to_dict()["config"]
    assert changed == {**plain, "foresight": True}


def test_what_a_recipe_says_of_online_training_is_left_out_where_it_says_nothing():
    assert "online" not in load_recipe("slots-deeprm-v1").to_dict()
    behaviours = load_recipe("slots-deeprm-v1").to_dict()["behaviours"]
    assert behaviours
    assert not any("sha256" in behaviour for behaviour in behaviours)
