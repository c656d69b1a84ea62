"""A script such as AirSim's users write, for `pvn serve airsim`; it runs with either client.

The client of AirSim 1.8.1 needs an environment of its own, as it pins msgpack 0.5 and tornado 4; see docs/airsim.md:
/path/to/its/python tests/bridges/airsim_script.py 41451
"""

import math
import sys

try:
    import airsim
except ModuleNotFoundError:
    import cosysairsim as airsim
import numpy as np

client = airsim.MultirotorClient(port=int(sys.argv[1]) if len(sys.argv) > 1 else 41451)
client.confirmConnection()
client.reset()
client.simPause(False)
client.enableApiControl(True)
assert client.isApiControlEnabled() and client.armDisarm(True)

assert client.takeoffAsync().get() is True
state = client.getMultirotorState()
assert state.landed_state == airsim.LandedState.Flying and abs(state.kinematics_estimated.position.z_val + 3) < 0.2
assert client.moveToPositionAsync(8, -6, -6, 4).get() is True
assert client.simGetVehiclePose().position.distance_to(airsim.Vector3r(8, -6, -6)) < 0.3
superseded = client.moveByVelocityAsync(2, 0, 0, 100)
assert client.moveByVelocityBodyFrameAsync(1, 1, 0, 1, yaw_mode=airsim.YawMode(True, 20)).get() is True
assert superseded.get() is False
assert client.moveByVelocityZAsync(1, 0, -5, 1).get() is True
assert client.rotateToYawAsync(45).get() is True and client.rotateByYawRateAsync(20, 1).get() is True
assert client.hoverAsync().get() is True

raw, png, depth, segmentation = client.simGetImages(
    [
        airsim.ImageRequest("0", airsim.ImageType.Scene, False, False),
        airsim.ImageRequest("0", airsim.ImageType.Scene),
        airsim.ImageRequest("0", airsim.ImageType.DepthPlanar, True, False),
        airsim.ImageRequest("0", airsim.ImageType.Segmentation, False, False),
    ]
)
pixels = np.frombuffer(raw.image_data_uint8, np.uint8).reshape(raw.height, raw.width, 3)
assert pixels.std() > 10 and bytes(png.image_data_uint8[:4]) == b"\x89PNG"
assert airsim.list_to_2d_float_array(depth.image_data_float, depth.width, depth.height).min() > 1
assert len(segmentation.image_data_uint8) == pixels.size
assert abs(client.simGetCameraInfo("0").fov - 90) < 1e-3
assert bytes(client.simGetImage("0", airsim.ImageType.Scene)[:4]) == b"\x89PNG"

names = client.simListSceneObjects()
assert names and math.isfinite(client.simGetObjectPose(names[0]).position.x_val)
collision = client.simGetCollisionInfo()
assert collision.has_collided is False and collision.object_name == ""
client.simPause(True)
start = client.getMultirotorState().timestamp
client.simContinueForTime(0.5)
assert client.simIsPause() and client.getMultirotorState().timestamp - start == 500_000_000
client.simPause(False)
client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(1, 2, -4), airsim.Quaternionr(0, 0, 0.6, 0.8)), True)
assert client.simGetVehiclePose().position.distance_to(airsim.Vector3r(1, 2, -4)) < 0.3
client.simPrintLogMessage("a message for the server's console")
assert abs(client.getImuData().linear_acceleration.z_val + 9.81) < 3 and client.getGpsData().is_valid
assert client.getLidarData().point_cloud and 0 < client.getDistanceSensorData().distance <= 40
assert 100 < client.getBarometerData().altitude < 140 and client.getMagnetometerData().magnetic_field_body.z_val > 0
try:
    client.client.call("getEchoData", "", "")
    raise AssertionError("an unsupported call was answered")
except Exception as error:
    assert "getEchoData" in str(error), error
assert client.goHomeAsync().get() is True and client.landAsync().get() is True
assert client.getMultirotorState().landed_state == airsim.LandedState.Landed
client.armDisarm(False)
client.enableApiControl(False)
sys.stdout.write(f"every call worked with {airsim.__name__} {getattr(airsim, '__version__', '')}\n")
