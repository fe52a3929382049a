"""A launch form as HCL: the text for each selection."""

from __future__ import annotations

import pytest

from portal.pages.servers.launch_body import LaunchFormValues
from portal.pages.servers.launch_hcl import terraform

FORM = {"name": "web", "image": "i-1", "flavor": "2", "network": "n-1"}
WHOLE = """\
resource "openstack_compute_instance_v2" "web" {
  count             = 2
  name              = "web-${count.index + 1}"
  image_id          = "i-1"
  flavor_id         = "2"
  key_pair          = "ana"
  availability_zone = "az-1"
  security_groups   = ["inside"]
  tags              = ["blue", "green"]
  user_data         = file("FILE")

  network {
    uuid = "n-1"
  }

  scheduler_hints {
    group                 = "g-1"
    additional_properties = { "form:payer" = "lab" }
  }
}"""


def test_a_whole_form_is_one_resource() -> None:
    more = {"count": "2", "key": "ana", "zone": "az-1", "security_group": "inside", "tags": "blue, green"}
    more |= {"user_data": "token-7", "group": "g-1"}
    assert terraform(LaunchFormValues(**FORM, **more, answers={"form:payer": "lab"})) == WHOLE


@pytest.mark.parametrize(
    ("changed", "stands", "is_gone"),
    [
        ({"network": "auto"}, '  network_mode = "auto"', "network {"),
        ({"network": "none"}, '  network_mode = "none"', "network {"),
        ({"network": ""}, '  network_mode = "auto"', "network {"),
        ({"name": ""}, '"openstack_compute_instance_v2" "NAME" {', "count"),
        ({"name": "2 düster"}, '"openstack_compute_instance_v2" "_2_d_ster" {', "NAME"),
        ({"name": 'a"${b}%{c}\\'}, 'name      = "a\\"$${b}%%{c}\\\\"', '"${b}'),
        ({"boot_volume": "v-1"}, '    uuid                  = "v-1"', "image_id"),
        ({"boot_volume": "v-1"}, "    boot_index            = 0", "boot_index            = -1"),
        ({"volume": "v-2"}, "    boot_index            = -1", "scheduler_hints"),
        ({"volume": "v-2"}, '    source_type           = "image"', "null"),
        ({"volume": "v-2"}, "    delete_on_termination = false", "False"),
        ({"user_data": "token-7"}, 'user_data = file("FILE")', "token-7"),
        ({"group": "g-1"}, '  scheduler_hints {\n    group = "g-1"\n  }', "additional_properties"),
    ],
)
def test_selected_values_are_in_the_hcl(changed: dict[str, str], stands: str, is_gone: str) -> None:
    reported = terraform(LaunchFormValues(**{**FORM, **changed}))
    assert stands in reported
    assert is_gone not in reported
